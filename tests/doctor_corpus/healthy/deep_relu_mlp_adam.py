import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(162)
blocks = []
for _ in range(7):
    blocks += [nn.Linear(48, 48), nn.ReLU()]
net = nn.Sequential(nn.Linear(6, 48), nn.ReLU(), *blocks, nn.Linear(48, 3))
for m in net:
    if isinstance(m, nn.Linear):
        nn.init.kaiming_normal_(m.weight, nonlinearity="relu")
        nn.init.zeros_(m.bias)
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
x = torch.randn(150, 6)
y = x[:, :3].argmax(1)
for epoch in range(10):
    for a, b in zip(x.split(50), y.split(50)):
        opt.zero_grad()
        loss = F.cross_entropy(net(a), b)
        loss.backward()
        opt.step()
    print(epoch, loss.item())
