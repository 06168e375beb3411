import torch
from torch import nn

torch.manual_seed(127)
# class-ordered file: single batches hold one class only
y = torch.arange(4).repeat_interleave(24)
x = torch.randn(96, 6)
x[:, :4] += 2 * nn.functional.one_hot(y, 4)
net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.02)
for epoch in range(12):
    for i in range(0, 96, 12):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(x[i:i + 12]), y[i:i + 12])
        loss.backward()
        opt.step()
with torch.no_grad():
    print((net(x).argmax(1) == y).float().mean())
