"""Gradient surgery of two tasks: gradients by autograd.grad, written to .grad, applied by Adam."""
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(3)
shared = nn.Sequential(nn.Linear(6, 16), nn.ReLU())
h1, h2 = nn.Linear(16, 1), nn.Linear(16, 1)
opt = torch.optim.Adam([*shared.parameters(), *h1.parameters(), *h2.parameters()], lr=1e-3)
history = []
for step in range(15):
    x = torch.randn(24, 6)
    z = shared(x)
    l1, l2 = F.mse_loss(h1(z), x[:, :1]), F.mse_loss(h2(z), x[:, 1:2] - x[:, :1])
    ps = list(shared.parameters())
    g1 = torch.autograd.grad(l1, ps, retain_graph=True)
    g2 = torch.autograd.grad(l2, ps, retain_graph=True)
    opt.zero_grad()
    (l1 + l2).backward()
    for p, a, b in zip(ps, g1, g2):
        dot = (a * b).sum()
        p.grad = a + b if dot > 0 else a + b - dot / (b.norm() ** 2 + 1e-12) * b
    opt.step()
    history.append(float(l1) + float(l2))
print(history[-1])
