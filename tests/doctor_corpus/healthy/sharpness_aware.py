"""Sharpness-aware minimisation: two backwards per step, the second at perturbed weights."""
import torch
from torch import nn


class SAM:
    def __init__(self, params, base, rho=0.05):
        self.params, self.base, self.rho = list(params), base, rho

    @torch.no_grad()
    def climb(self):
        norm = torch.stack([p.grad.norm() for p in self.params]).norm()
        self.moves = [p.grad * (self.rho / (norm + 1e-12)) for p in self.params]
        for p, e in zip(self.params, self.moves):
            p.add_(e)

    @torch.no_grad()
    def descend(self):
        for p, e in zip(self.params, self.moves):
            p.sub_(e)
        self.base.step()


torch.manual_seed(2)
net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 2))
base = torch.optim.SGD(net.parameters(), lr=0.1)
sam = SAM(net.parameters(), base)
for _ in range(20):
    x = torch.randn(32, 5)
    y = (x[:, 0] > 0).long()
    nn.functional.cross_entropy(net(x), y).backward()
    sam.climb()
    base.zero_grad()
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    sam.descend()
    base.zero_grad()
print(loss.item())
