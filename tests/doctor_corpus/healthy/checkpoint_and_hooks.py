import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
a = nn.Sequential(nn.Linear(8, 16), nn.Tanh())
b = nn.Linear(16, 1)
norms = []
b.weight.register_hook(lambda g: norms.append(g.norm().item()))
opt = torch.optim.Adam([*a.parameters(), *b.parameters()], lr=1e-2)
x = torch.randn(30, 8, requires_grad=True)
y = torch.randn(30, 1)
for i in range(12):
    h = checkpoint(a, x, use_reentrant=False)
    loss = nn.functional.mse_loss(b(h), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item(), len(norms))
