import math

import torch
from torch import nn

torch.manual_seed(165)


class Coupling(nn.Module):
    def __init__(self, flip):
        super().__init__()
        self.flip = flip
        self.net = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 2))
        nn.init.zeros_(self.net[-1].weight)
        nn.init.zeros_(self.net[-1].bias)

    def forward(self, x):
        a, b = x.chunk(2, dim=1)
        if self.flip:
            a, b = b, a
        log_s, t = self.net(a).chunk(2, dim=1)
        log_s = torch.tanh(log_s)
        b = b * log_s.exp() + t
        return torch.cat([b, a] if self.flip else [a, b], 1), log_s.sum(1)


flow = nn.ModuleList([Coupling(i % 2 == 1) for i in range(4)])
opt = torch.optim.Adam(flow.parameters(), lr=5e-3)
for step in range(40):
    u = torch.randn(128, 2)
    x = torch.stack([u[:, 0], u[:, 0] ** 2 / 2 + 0.3 * u[:, 1]], 1)
    z, log_det = x, 0.0
    for layer in flow:
        z, ld = layer(z)
        log_det = log_det + ld
    log_p = -0.5 * z.pow(2).sum(1) - math.log(2 * math.pi)
    loss = -(log_p + log_det).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
