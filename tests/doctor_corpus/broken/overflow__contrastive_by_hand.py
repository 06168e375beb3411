"""Contrastive learning: temperature so small that exp overflows when written by hand."""
from dataclasses import dataclass
import torch
from torch import nn
import torch.nn.functional as F


@dataclass(frozen=True)
class Hyper:
    temperature: float = 0.01
    batch: int = 16
    dim: int = 8


class Projector(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, h.dim))

    def forward(self, x):
        return F.normalize(self.net(x), dim=1)


def nt_xent(a, b, temperature):
    z = torch.cat([a, b])
    sim = z @ z.T / temperature
    weights = sim.exp()  # BUG: overflow
    n = len(a)
    positive = torch.cat([weights.diagonal(n), weights.diagonal(-n)])
    everything = weights.sum(1) - weights.diagonal()
    return -(positive / everything).log().mean()


h = Hyper()
torch.manual_seed(0)
model = Projector(h)
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for it in range(8):
    x = torch.randn(h.batch, 10)
    loss = nt_xent(model(x + 0.01 * torch.randn_like(x)), model(x), h.temperature)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(it, loss.item())
