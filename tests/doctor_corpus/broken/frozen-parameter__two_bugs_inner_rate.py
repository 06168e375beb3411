"""First-order meta-learning of sine waves with functional_call."""
import math

import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh())
        self.readout = nn.Linear(32, 1)
        self.log_inner_rate = nn.Parameter(torch.tensor(-3.0))

    def forward(self, x):
        return self.readout(self.features(x))


def task(n=20):
    amplitude, phase = 0.5 + torch.rand(1), torch.rand(1) * math.pi
    x = torch.rand(n, 1) * 6 - 3
    return x, amplitude * torch.sin(x + phase)


def adapt(model, x, y):
    names = [n for n, p in model.named_parameters() if n.startswith("readout")]
    params = dict(model.named_parameters())
    loss = nn.functional.mse_loss(functional_call(model, params, (x,)), y)
    grads = torch.autograd.grad(loss, [params[n] for n in names], create_graph=True)
    rate = float(model.log_inner_rate.exp())  # BUG: left-the-graph
    for name, grad in zip(names, grads):
        params[name] = params[name] - rate * grad
    return params


def build():
    model = Regressor()
    for name, p in model.named_parameters():
        if name.startswith("features.0"):
            p.requires_grad = False  # BUG: frozen-parameter
    return model, torch.optim.Adam(model.parameters(), lr=2e-3)


model, opt = build()
for it in range(30):
    opt.zero_grad()
    total = 0.0
    for _ in range(4):
        x, y = task()
        fast = adapt(model, x[:10], y[:10])
        loss = nn.functional.mse_loss(functional_call(model, fast, (x[10:],)), y[10:]) / 4
        loss.backward()
        total += loss.item()
    opt.step()
    if it % 10 == 0:
        print(it, total)
