import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class LogCounts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(5))
        self.out = nn.Linear(5, 1)

    def forward(self, counts):
        scaled = counts * F.softplus(self.gain)
        logged = torch.log(scaled)  # BUG: nan-in-unselected-branch
        feats = torch.where(counts > 0, logged, torch.zeros_like(logged))
        return self.out(feats)


model = LogCounts()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
counts = torch.poisson(torch.full((50, 5), 1.5))
y = counts.sum(1, keepdim=True).log1p()
for epoch in range(8):
    optimizer.zero_grad()
    loss = F.mse_loss(model(counts), y)
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
