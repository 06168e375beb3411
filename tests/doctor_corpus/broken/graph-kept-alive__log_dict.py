import random

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(195)
random.seed(195)
net = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 2))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
log = {"loss": [], "acc": []}
for step in range(30):
    x = torch.randn(20, 3)
    y = (x[:, 0] > 0).long()
    out = net(x)
    loss = F.cross_entropy(out, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    log["acc"].append((out.argmax(1) == y).float().mean().item())
    log["loss"].append(loss)  # BUG: graph-kept-alive
print(sum(log["acc"]) / 30)
