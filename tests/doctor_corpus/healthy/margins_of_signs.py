import torch
from torch import nn
import torch.nn.functional as F
torch.manual_seed(0)
emb = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
cls = nn.Linear(3, 1)
opt = torch.optim.SGD([*emb.parameters(), *cls.parameters()], lr=0.05, momentum=0.9)
hinge, soft = nn.HingeEmbeddingLoss(margin=1.0), nn.SoftMarginLoss()
rank = nn.MarginRankingLoss(margin=0.2)
for it in range(60):
    x = torch.randn(32, 6)
    side = torch.sign(x[:, 0])
    z = emb(x)
    d = F.pairwise_distance(z, z.roll(1, 0))
    loss = hinge(d, side * side.roll(1, 0)) + soft(cls(z).squeeze(1), side)
    s = cls(z).squeeze(1)
    loss = loss + rank(s[side > 0].mean(), s[side < 0].mean(), torch.ones(()))
    opt.zero_grad()
    loss.backward()
    opt.step()
    if it % 20 == 0: print(loss.item())
