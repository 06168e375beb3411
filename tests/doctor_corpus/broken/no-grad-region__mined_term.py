import torch
import torch.nn.functional as F
from torch import nn


class MetricNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 24), nn.ReLU())
        self.embed = nn.Linear(24, 6)
        self.classify = nn.Linear(24, 3)

    def forward(self, x):
        h = self.body(x)
        return self.classify(h), self.embed(h)


@torch.no_grad()
def hardest_pairs(e, labels):
    distance = (e[:, None] - e[None]).pow(2).sum(-1)
    same = labels[:, None] == labels[None]
    far = distance.masked_fill(~same, -1.0).argmax(1)
    near = distance.masked_fill(same, 1e9).argmin(1)
    pull = (e - e[far]).pow(2).sum(-1)  # BUG: no-grad-region
    push = (e - e[near]).pow(2).sum(-1)
    return F.relu(pull - push + 0.5).mean()


torch.manual_seed(0)
net = MetricNet()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(30):
    y = torch.randint(0, 3, (24,))
    x = torch.randn(24, 8) + F.one_hot(y, 8) * 2
    logits, e = net(x)
    loss = F.cross_entropy(logits, y) + 0.5 * hardest_pairs(e, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
