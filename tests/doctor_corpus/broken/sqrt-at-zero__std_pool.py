import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(93)


class StatsPool(nn.Module):
    def forward(self, h):
        mean = h.mean(1)
        var = (h - mean.unsqueeze(1)).pow(2).mean(1)
        return torch.cat([mean, var ** 0.5], dim=1)  # BUG: sqrt-at-zero


class Speaker(nn.Module):
    def __init__(self):
        super().__init__()
        self.frame = nn.Linear(6, 10)
        self.pool = StatsPool()
        self.out = nn.Linear(20, 3)

    def forward(self, x):
        return self.out(self.pool(self.frame(x)))


model = Speaker()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(8):
    x = torch.randn(10, 12, 6)
    x[0] = 0.5  # one recording is constant
    loss = F.cross_entropy(model(x), torch.randint(0, 3, (10,)))
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
