"""Softplus-free variance: sqrt of a clamped variance that is zero for a constant feature."""
import torch
from torch import nn


class InstanceScale(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.w = nn.Linear(d, d)

    def forward(self, x):
        h = torch.tanh(self.w(x))
        centred = h - h.mean(dim=0)
        spread = torch.sqrt((centred**2).mean(dim=0))  # BUG: sqrt-at-zero
        return centred / (spread + 1e-5)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.s = InstanceScale(12)
        self.o = nn.Linear(12, 1)
        with torch.no_grad():
            self.s.w.weight[0] = 0.0
            self.s.w.bias[0] = 0.0

    def forward(self, x):
        return self.o(self.s(x)).squeeze(-1)


torch.manual_seed(10)
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=1e-2)
for step in range(8):
    x = torch.randn(64, 12)
    loss = (net(x) - x[:, 0]).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
