import torch
from torch import nn
import torch.nn.functional as F
torch.manual_seed(0)
x = torch.randn(60, 4)
y = x.sum(1, keepdim=True)
y[7] = float("nan")
net = nn.Linear(4, 1)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for _ in range(10):
    out = net(x)

    loss = F.smooth_l1_loss(out, y)  # BUG: nan-input
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
