import torch
import torch.nn as nn
from torch.func import grad, vmap

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)


def u(t):
    return net(t.reshape(1, 1)).squeeze()


for i in range(20):
    t = torch.rand(16)
    residual = vmap(grad(u))(t) + vmap(u)(t)
    loss = (residual**2).mean() + (u(torch.tensor(0.0)) - 1) ** 2
    opt.zero_grad()
    loss.backward()
    opt.step()
