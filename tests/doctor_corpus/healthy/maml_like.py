import torch
import torch.nn as nn
from torch.func import functional_call

torch.manual_seed(29)
model = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 1))
meta_opt = torch.optim.Adam(model.parameters(), lr=5e-3)


def task():
    phase, amp = torch.rand(1) * 3.14, 0.5 + torch.rand(1)
    return lambda x: amp * torch.sin(x + phase)


for it in range(15):
    meta_loss = 0.0
    for _ in range(3):
        f = task()
        xs, xq = torch.randn(10, 1), torch.randn(10, 1)
        params = dict(model.named_parameters())
        inner = (functional_call(model, params, (xs,)) - f(xs)).pow(2).mean()
        grads = torch.autograd.grad(inner, list(params.values()), create_graph=True)
        fast = {k: p - 0.05 * g for (k, p), g in zip(params.items(), grads)}
        meta_loss = meta_loss + (functional_call(model, fast, (xq,)) - f(xq)).pow(2).mean()
    meta_opt.zero_grad()
    meta_loss.backward()
    meta_opt.step()
    print(it, meta_loss.item() / 3)
