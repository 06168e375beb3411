import torch
from torch import nn

torch.manual_seed(8)


class Ranker(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1))
        self.calibrate = nn.Linear(1, 1)

    def forward(self, items):
        scores = []
        for item in items:
            scores.append(self.score(item).tolist())  # BUG: left-the-graph
        return self.calibrate(torch.tensor(scores)).squeeze(-1)


ranker = Ranker()
optimizer = torch.optim.Adam(ranker.parameters(), lr=0.02)
items = torch.randn(24, 5)
relevance = items[:, 0] - items[:, 3]
for epoch in range(20):
    predicted = ranker(items)
    loss = nn.functional.smooth_l1_loss(predicted, relevance)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if epoch % 5 == 0:
        print(f"[{epoch}] {loss.item():.4f}")
