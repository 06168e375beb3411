import torch
import torch.nn.functional as F
from torch import nn


class EmbeddingNet(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))


def pairwise(a, b):
    return (a.unsqueeze(1) - b.unsqueeze(0)).pow(2).sum(-1)


def triplet_loss(anchor, pos, neg, margin=1.0):
    torch.set_grad_enabled(False)  # mining needs no graph
    d_neg = pairwise(anchor, neg)
    hardest = d_neg.argmin(dim=1)
    d_ap = (anchor - pos).pow(2).sum(-1)  # BUG: no-grad-region
    d_an = (anchor - neg[hardest]).pow(2).sum(-1)
    return F.relu(d_ap - d_an + margin).mean()


torch.manual_seed(0)
net = EmbeddingNet()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
centers = torch.randn(4, 16) * 2
for step in range(20):
    c = torch.randint(0, 4, (24,))
    a = centers[c] + 0.3 * torch.randn(24, 16)
    p = centers[c] + 0.3 * torch.randn(24, 16)
    n = centers[(c + 1) % 4] + 0.3 * torch.randn(24, 16)
    loss = triplet_loss(net(a), net(p), net(n))
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, float(loss))
