"""Physics-informed net for u_t = k u_xx with a learnable diffusivity k."""
import math

import torch
from torch import nn

torch.manual_seed(0)


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
        self.log_k = nn.Parameter(torch.tensor(-3.0))
        self.fourier = nn.Parameter(torch.randn(2, 8))  # BUG: unused-parameter

    def forward(self, x, t):
        return self.net(torch.cat([x, t], dim=1))

    def diffusivity(self):
        return math.exp(self.log_k.item())  # BUG: left-the-graph


def derivative(y, wrt):
    return torch.autograd.grad(y.sum(), wrt, create_graph=True)[0]


def residual(field, n=128):
    x = torch.rand(n, 1, requires_grad=True)
    t = torch.rand(n, 1, requires_grad=True)
    u = field(x, t)
    u_t, u_x = derivative(u, t), derivative(u, x)
    u_xx = derivative(u_x, x)
    return u_t - field.diffusivity() * u_xx


def observations(field, n=64, k=0.1):
    x, t = torch.rand(n, 1), torch.rand(n, 1)
    exact = torch.sin(math.pi * x) * torch.exp(-k * math.pi**2 * t)
    return field(x, t) - exact


field = Field()
optim = torch.optim.Adam(field.parameters(), lr=3e-3)
for it in range(60):
    optim.zero_grad()
    loss = observations(field).square().mean() + 0.1 * residual(field).square().mean()
    loss.backward()
    optim.step()
    if it % 20 == 0:
        print(f"{it:4d} loss={loss.item():.4f} k={field.diffusivity():.4f}")
