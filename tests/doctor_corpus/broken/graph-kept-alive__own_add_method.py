"""a monitor of one's own, whose method is called like a container's"""
import torch
import torch.nn as nn


class Monitor:
    def __init__(self):
        self.seen = []

    def add(self, value):
        self.seen.append(value)  # BUG: graph-kept-alive

    def mean(self):
        return float(sum(self.seen)) / len(self.seen)


torch.manual_seed(4)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
monitor = Monitor()
for it in range(40):
    x = torch.randn(16, 4)
    loss = (net(x) - x[:, :1] * x[:, 1:2]).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    monitor.add(loss)
print(monitor.mean())
