import torch
import torch.nn.functional as F
from torch import nn


def distances(z):
    dot = z @ z.t()
    sq = dot.diag()
    d = (sq.unsqueeze(0) - 2 * dot + sq.unsqueeze(1)).clamp(min=0)
    zero = (d == 0).float()
    return torch.sqrt(d + zero * 1e-16) * (1 - zero)


def batch_hard(z, labels, margin=0.3):
    d = distances(z)
    same = labels.unsqueeze(0) == labels.unsqueeze(1)
    eye = torch.eye(len(labels), dtype=torch.bool)
    hardest_positive = (d * (same & ~eye)).max(dim=1).values
    hardest_negative = (d + d.max().detach() * same).min(dim=1).values
    return F.relu(hardest_positive - hardest_negative + margin).mean()


torch.manual_seed(0)
centres = torch.randn(6, 10)
net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 8))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(80):
    labels = torch.arange(6).repeat(5)
    x = centres[labels] + 0.5 * torch.randn(30, 10)
    loss = batch_hard(F.normalize(net(x), dim=1), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
