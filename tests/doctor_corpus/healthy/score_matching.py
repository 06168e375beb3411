"""Denoising score matching: the loss is made of the energy's derivative, so the energy's last bias cannot matter."""
import torch
from torch import nn

torch.manual_seed(0)
SIGMA = 0.3

energy = nn.Sequential(nn.Linear(2, 32), nn.Softplus(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(energy.parameters(), lr=3e-3)


def score(points):
    return -torch.autograd.grad(energy(points).sum(), points, create_graph=True)[0]


for step in range(60):
    data = torch.randn(64, 2) * 0.5 + 1
    noise = torch.randn_like(data)
    noisy = (data + SIGMA * noise).requires_grad_()
    loss = (score(noisy) * SIGMA + noise).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
