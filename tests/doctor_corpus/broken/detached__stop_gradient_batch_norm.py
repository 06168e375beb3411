"""SimSiam: the stop-gradient landed on the predictor's side as well."""
import torch
from torch import nn
import torch.nn.functional as F


class SimSiam(nn.Module):
    def __init__(self, d=12, h=24):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(d, h), nn.BatchNorm1d(h), nn.ReLU(), nn.Linear(h, h))
        self.predictor = nn.Sequential(nn.Linear(h, h // 2), nn.ReLU(), nn.Linear(h // 2, h))

    def forward(self, a, b):
        za, zb = self.backbone(a), self.backbone(b)
        pa = self.predictor(za.detach())  # BUG: detached
        pb = self.predictor(zb.detach())
        return pa, pb, za.detach(), zb.detach()


def similarity(p, z):
    return -F.cosine_similarity(p, z, dim=1).mean()


def augment(x, generator=None):
    return x + 0.2 * torch.randn_like(x)


torch.manual_seed(1)
net = SimSiam()
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
pool = torch.randn(128, 12)
for it in range(30):
    batch = pool[torch.randperm(128)[:32]]
    pa, pb, za, zb = net(augment(batch), augment(batch))
    loss = 0.5 * similarity(pa, zb) + 0.5 * similarity(pb, za)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
