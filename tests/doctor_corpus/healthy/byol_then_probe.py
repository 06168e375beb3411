"""BYOL-style self-supervision: stop-gradient targets, momentum encoder, then a linear probe."""
import copy

import torch
from torch import nn
import torch.nn.functional as F


def mlp(a, b, c):
    return nn.Sequential(nn.Linear(a, b), nn.BatchNorm1d(b), nn.ReLU(inplace=True), nn.Linear(b, c))


class BYOL(nn.Module):
    def __init__(self):
        super().__init__()
        self.online = mlp(16, 48, 16)
        self.predictor = mlp(16, 32, 16)
        self.target = copy.deepcopy(self.online).requires_grad_(False)

    @torch.no_grad()
    def update_target(self, tau=0.97):
        for t, o in zip(self.target.parameters(), self.online.parameters()):
            t.lerp_(o, 1 - tau)

    def forward(self, a, b):
        p = F.normalize(self.predictor(self.online(a)), dim=-1)
        with torch.no_grad():
            z = F.normalize(self.target(b), dim=-1)
        return (2 - 2 * (p * z).sum(-1)).mean()


def views(n=64):
    x = torch.randn(n, 4) @ BASIS
    return x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x)


torch.manual_seed(0)
BASIS = torch.randn(4, 16)
model = BYOL()
opt = torch.optim.Adam([*model.online.parameters(), *model.predictor.parameters()], lr=2e-3)
for step in range(60):
    a, b = views()
    loss = model(a, b) + model(b, a)
    opt.zero_grad()
    loss.backward()
    opt.step()
    model.update_target()
    if step % 20 == 0:
        print("ssl", step, loss.item())

probe = nn.Linear(16, 2)
opt_probe = torch.optim.Adam(probe.parameters(), lr=1e-2)
direction = torch.randn(16)
for step in range(40):
    x, _ = views()
    with torch.no_grad():
        model.eval()
        features = model.online(x)
    loss = F.cross_entropy(probe(features), (x @ direction > 0).long())
    opt_probe.zero_grad()
    loss.backward()
    opt_probe.step()
print("probe", loss.item())
