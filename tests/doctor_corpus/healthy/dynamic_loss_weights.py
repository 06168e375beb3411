import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(125)
trunk = nn.Sequential(nn.Linear(6, 24), nn.Tanh())
heads = nn.ModuleList([nn.Linear(24, 1), nn.Linear(24, 1)])
opt = torch.optim.Adam([*trunk.parameters(), *heads.parameters()], lr=1e-2)
x = torch.randn(100, 6)
targets = [x[:, :1], 5 * x[:, 1:2] * x[:, 2:3]]
previous = [1.0, 1.0]
for step in range(40):
    h = trunk(x)
    losses = [F.mse_loss(head(h), t) for head, t in zip(heads, targets)]
    ratios = [l.item() / p for l, p in zip(losses, previous)]
    weights = [r / sum(ratios) for r in ratios]
    loss = sum(w * l for w, l in zip(weights, losses))
    previous = [l.item() for l in losses]
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item(), previous)
