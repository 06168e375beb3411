"""A hand-written optimizer on a dict of parameters, with functional_call."""
import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(5, 24), nn.Tanh(), nn.Linear(24, 1))
params = {name: p.detach().clone().requires_grad_(True) for name, p in net.named_parameters()}
velocity = {name: torch.zeros_like(p) for name, p in params.items()}


def loss_of(params, x, y):
    return nn.functional.mse_loss(functional_call(net, params, (x,)), y)


def momentum_step(params, grads, rate=0.05, mu=0.9):
    updated = {}
    for (name, p), g in zip(params.items(), grads):
        velocity[name].mul_(mu).add_(g)
        updated[name] = (p - rate * velocity[name]).detach().requires_grad_(True)
    return updated


for step in range(60):
    x = torch.randn(48, 5)
    y = x[:, :1] - 0.5 * x[:, 1:2]
    loss = loss_of(params, x, y)
    grads = torch.autograd.grad(loss, list(params.values()))
    params = momentum_step(params, grads)
    if step % 20 == 0:
        print(step, loss.item())
