import random

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(212)
random.seed(212)


class Drop(nn.Module):
    """Blocks are skipped at random: in some steps they get no gradient."""

    def __init__(self, d=16, depth=4):
        super().__init__()
        self.inp = nn.Linear(5, d)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(d, d), nn.ReLU()) for _ in range(depth))
        self.out = nn.Linear(d, 2)

    def forward(self, x):
        h = self.inp(x)
        for i, block in enumerate(self.blocks):
            if self.training and random.random() < 0.4:
                continue
            h = h + block(h)
        return self.out(h)


net = Drop()
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
x = torch.randn(100, 5)
y = (x[:, 0] * x[:, 1] > 0).long()
for epoch in range(40):
    loss = F.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
