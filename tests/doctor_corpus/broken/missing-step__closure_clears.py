import torch
from torch import nn
import torch.nn.functional as F
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 12), nn.Tanh(), nn.Linear(12, 1))
opt = torch.optim.LBFGS(net.parameters(), lr=0.5)
t = torch.linspace(0, 1, 40).unsqueeze(1)
def closure():
    loss = F.mse_loss(net(t), torch.sin(5 * t))
    loss.backward()  # BUG: missing-step
    opt.zero_grad()  # BUG: missing-step
    return loss
for _ in range(8):
    print(opt.step(closure).item())
