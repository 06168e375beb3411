import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(228)
net = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(90, 6) * 2
y = (x[:, 0] > 0).long()
running = 0.0
for epoch in range(6):
    for a, b in zip(x.split(30), y.split(30)):
        loss = F.cross_entropy(net(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()
        running = running + loss  # BUG: graph-kept-alive

    net.eval()  # BUG: eval-mode-left-on
    with torch.no_grad():
        print(epoch, (net(x).argmax(1) == y).float().mean().item())
