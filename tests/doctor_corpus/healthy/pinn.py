import torch
import torch.nn as nn

torch.manual_seed(13)
net = nn.Sequential(nn.Linear(1, 20), nn.Tanh(), nn.Linear(20, 20), nn.Tanh(), nn.Linear(20, 1))
opt = torch.optim.Adam(net.parameters(), lr=5e-3)


def derivative(y, x):
    return torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)[0]


for step in range(40):
    x = torch.rand(50, 1).requires_grad_(True)
    u = net(x)
    du = derivative(u, x)
    d2u = derivative(du, x)
    residual = ((d2u + u) ** 2).mean()
    x0 = torch.zeros(1, 1, requires_grad=True)
    u0 = net(x0)
    boundary = (u0 ** 2).mean() + ((derivative(u0, x0) - 1) ** 2).mean()
    loss = residual + boundary
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 10 == 0:
        print(step, loss.item())
