"""Meta-learning (first order) where the adapted weights lose the graph."""
import torch
from torch import nn
import torch.nn.functional as F


class Task:
    def __init__(self):
        self.a = torch.rand(1) * 4 + 0.5
        self.p = torch.rand(1) * 3.14

    def batch(self, n=10):
        x = torch.rand(n, 1) * 10 - 5
        return x, self.a * torch.sin(x + self.p)


def net(x, params):
    w1, b1, w2, b2 = params
    return F.linear(torch.tanh(F.linear(x, w1, b1)), w2, b2)


def adapt(params, x, y, lr=0.01, steps=2):
    fast = list(params)
    for _ in range(steps):
        loss = F.mse_loss(net(x, fast), y)
        grads = torch.autograd.grad(loss, fast)
        fast = [(p - lr * g).detach().requires_grad_() for p, g in zip(fast, grads)]  # BUG: detached
    return fast


torch.manual_seed(9)
params = [nn.Parameter(torch.randn(20, 1) * 0.5), nn.Parameter(torch.zeros(20)), nn.Parameter(torch.randn(1, 20) * 0.3), nn.Parameter(torch.zeros(1))]
outer = torch.optim.Adam(params, lr=1e-3)
for it in range(15):
    meta = 0.0
    for _ in range(3):
        task = Task()
        fast = adapt(params, *task.batch())
        x, y = task.batch()
        meta = meta + F.mse_loss(net(x, fast), y)
    outer.zero_grad()
    meta.backward()
    outer.step()
print(meta.item())
