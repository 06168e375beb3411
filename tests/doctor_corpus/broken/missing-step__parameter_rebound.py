import torch
from torch import nn
import torch.nn.functional as F
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
lr = 0.05
for _ in range(30):
    x = torch.randn(32, 4)
    loss = F.mse_loss(net(x), x.sum(1, keepdim=True))
    net.zero_grad()
    loss.backward()  # BUG: missing-step
    with torch.no_grad():
        for p in net.parameters():
            p = p - lr * p.grad  # BUG: missing-step
print(loss.item())
