import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 6))
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
for step in range(40):
    y = torch.randint(0, 3, (24,))
    x = torch.randn(24, 8) + F.one_hot(y, 8) * 2
    e = net(x)
    with torch.no_grad():
        distance = (e[:, None] - e[None]).pow(2).sum(-1)
        same = y[:, None] == y[None]
        far = distance.masked_fill(~same, -1.0).argmax(1)
        near = distance.masked_fill(same, 1e9).argmin(1)
    loss = F.relu((e - e[far]).pow(2).sum(-1) - (e - e[near]).pow(2).sum(-1) + 1.0).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
