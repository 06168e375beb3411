"""First-order MAML: inner gradients without create_graph, outer gradients through the adapted weights."""
import torch
import torch.nn.functional as F
from torch import nn


def net(x, params):
    w1, b1, w2, b2 = params
    return F.linear(torch.tanh(F.linear(x, w1, b1)), w2, b2)


def adapt(params, x, y, lr=0.01, steps=2):
    fast = list(params)
    for _ in range(steps):
        loss = F.mse_loss(net(x, fast), y)
        grads = torch.autograd.grad(loss, fast)
        fast = [p - lr * g for p, g in zip(fast, grads)]
    return fast


torch.manual_seed(9)
params = [nn.Parameter(torch.randn(20, 1) * 0.5), nn.Parameter(torch.zeros(20)), nn.Parameter(torch.randn(1, 20) * 0.3), nn.Parameter(torch.zeros(1))]
outer = torch.optim.Adam(params, lr=1e-3)
for it in range(15):
    meta = 0.0
    for _ in range(3):
        x = torch.rand(20, 1) * 10 - 5
        y = torch.rand(1) * torch.sin(x + torch.rand(1))
        fast = adapt(params, x[:10], y[:10])
        meta = meta + F.mse_loss(net(x[10:], fast), y[10:])
    outer.zero_grad()
    meta.backward()
    outer.step()
print(meta.item())
