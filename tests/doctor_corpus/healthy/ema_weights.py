import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(15)


class EMA:
    def __init__(self, model, decay=0.95):
        self.shadow = copy.deepcopy(model)
        self.decay = decay
        for p in self.shadow.parameters():
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for s, p in zip(self.shadow.parameters(), model.parameters()):
            s.mul_(self.decay).add_(p, alpha=1 - self.decay)


model = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 1))
ema = EMA(model)
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.randn(128, 5)
y = x.abs().sum(1, keepdim=True)
running = 0.0
for step in range(40):
    idx = torch.randint(0, 128, (32,))
    loss = F.mse_loss(model(x[idx]), y[idx])
    opt.zero_grad()
    loss.backward()
    opt.step()
    ema.update(model)
    running = 0.9 * running + 0.1 * loss.item()
with torch.no_grad():
    print(running, F.mse_loss(ema.shadow(x), y).item())
