import torch
from torch import nn

torch.manual_seed(189)


class HalfNorm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d))

    def forward(self, x):
        small = (x * 1e-3).half()
        power = small * small * small  # BUG: underflow
        return power.float().sum(1) * 100.0 * self.gain.mean()


net = nn.Sequential(nn.Linear(6, 12), HalfNorm(12))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(12):
    x = torch.randn(20, 6)
    loss = (net(x) - x.sum(1)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
