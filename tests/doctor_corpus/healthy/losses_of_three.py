import torch
import torch.nn.functional as F
from torch import nn


class Meter(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 32), nn.ReLU())
        self.mean = nn.Linear(32, 1)
        self.spread = nn.Linear(32, 1)
        self.count = nn.Linear(32, 1)
        self.code = nn.Linear(32, 6)

    def forward(self, x):
        h = self.body(x)
        return self.mean(h), F.softplus(self.spread(h)) + 1e-4, self.count(h).clamp(max=10), self.code(h)


torch.manual_seed(0)
x = torch.rand(160, 5)
level = x.sum(dim=1, keepdim=True) + 0.1 * torch.randn(160, 1)
counts = torch.poisson(1 + 4 * x[:, 1:2])
high = x[:, 2] > 0.5
model = Meter()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
gaussian, poisson = nn.GaussianNLLLoss(full=True), nn.PoissonNLLLoss(log_input=True)
pairs, ranking, triplet = nn.CosineEmbeddingLoss(margin=0.2), nn.MarginRankingLoss(0.1), nn.TripletMarginLoss()
for epoch in range(12):
    for i in range(0, 160, 40):
        part = slice(i, i + 40)
        mean, variance, log_rate, code = model(x[part])
        other = torch.randperm(40)
        same = (high[part] == high[part][other]).int() * 2 - 1
        ahead = torch.sign(level[part] - level[part][other])
        loss = gaussian(mean, level[part], variance) + poisson(log_rate, counts[part])
        loss = loss + 0.3 * pairs(code, code[other], same) + 0.3 * ranking(mean, mean[other], ahead)
        loss = loss + 0.3 * triplet(code, code.roll(1, 0), code.roll(2, 0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
