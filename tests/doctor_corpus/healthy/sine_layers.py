import math

import torch
from torch import nn


class SineLayer(nn.Module):
    def __init__(self, inp, out, first=False, omega=30):
        super().__init__()
        self.omega = omega
        self.linear = nn.Linear(inp, out)
        with torch.no_grad():
            bound = 1 / inp if first else math.sqrt(6 / inp) / omega
            self.linear.weight.uniform_(-bound, bound)

    def forward(self, x):
        return torch.sin(self.omega * self.linear(x))


class Siren(nn.Module):
    def __init__(self):
        super().__init__()
        final = nn.Linear(32, 1)
        with torch.no_grad():
            final.weight.uniform_(-math.sqrt(6 / 32) / 30, math.sqrt(6 / 32) / 30)
        self.net = nn.Sequential(SineLayer(2, 32, first=True), SineLayer(32, 32), final)

    def forward(self, coords):
        coords = coords.clone().detach().requires_grad_(True)
        return self.net(coords), coords


torch.manual_seed(0)
axis = torch.linspace(-1, 1, 16)
coords = torch.stack(torch.meshgrid(axis, axis, indexing="ij"), dim=-1).reshape(-1, 2)
image = torch.sin(4 * coords[:, :1]) * torch.cos(3 * coords[:, 1:])
siren = Siren()
optimizer = torch.optim.Adam(siren.parameters(), lr=1e-3)
for step in range(80):
    output, _ = siren(coords)
    loss = ((output - image) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
