import torch
import torch.nn as nn


class Meter:
    def __init__(self):
        self.avg = None

    def update(self, v):
        self.avg = v if self.avg is None else 0.95 * self.avg + 0.05 * v  # BUG: graph-kept-alive


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
meter = Meter()
for i in range(30):
    x = torch.randn(16, 8)
    loss = (net(x) - x.mean(1, keepdim=True)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    meter.update(loss)
print(meter.avg.item())
