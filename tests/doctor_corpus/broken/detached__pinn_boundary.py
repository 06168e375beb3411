"""PINN for u'' = -sin(x); the boundary is never met"""
import torch
import torch.nn as nn

torch.manual_seed(0)
u = nn.Sequential(nn.Linear(1, 20), nn.Tanh(), nn.Linear(20, 20), nn.Tanh(), nn.Linear(20, 1))
opt = torch.optim.Adam(u.parameters(), lr=1e-3)
xb = torch.tensor([[0.0], [3.14159]])
for it in range(20):
    x = (torch.rand(64, 1) * 3.14159).requires_grad_(True)
    y = u(x)
    du = torch.autograd.grad(y.sum(), x, create_graph=True)[0]
    d2u = torch.autograd.grad(du.sum(), x, create_graph=True)[0]
    res = d2u + torch.sin(x)
    bc = u(xb).detach()  # BUG: detached
    loss = (res ** 2).mean() + (bc ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if it % 5 == 0:
        print(it, loss.item())
