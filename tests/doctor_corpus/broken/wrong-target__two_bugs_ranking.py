import torch
from torch import nn

torch.manual_seed(0)
scorer = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 8))
optimizer = torch.optim.SGD(scorer.parameters(), lr=0.05, momentum=0.9)
scorer[2] = nn.Linear(16, 1)  # BUG: stale-optimizer
criterion = nn.MarginRankingLoss(margin=0.5)
truth = torch.randn(6)
for step in range(80):
    first, second = torch.randn(32, 6), torch.randn(32, 6)
    better = (first @ truth > second @ truth).float()
    loss = criterion(scorer(first).squeeze(1), scorer(second).squeeze(1), better)  # BUG: wrong-target
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
