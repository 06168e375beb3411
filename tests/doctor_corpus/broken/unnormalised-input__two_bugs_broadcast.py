import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(229)
income = torch.rand(80) * 90000 + 10000
age = torch.rand(80) * 50 + 20
features = torch.stack([income, age], 1)
target = age / 70
net = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for epoch in range(15):
    out = net(features)  # BUG: unnormalised-input
    opt.zero_grad()

    loss = F.l1_loss(out, target)  # BUG: suspicious-broadcast
    loss.backward()
    opt.step()
print(loss.item())
