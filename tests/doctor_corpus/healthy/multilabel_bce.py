import torch
from torch import nn

torch.manual_seed(22)


class MultiLabel(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(100, 24, mode="mean")
        self.out = nn.Linear(24, 5)

    def forward(self, ids):
        return self.out(self.bag(ids))

    @torch.no_grad()
    def predict(self, ids):
        return torch.sigmoid(self(ids)) > 0.5


ids = torch.randint(0, 100, (80, 6))
tags = torch.stack([(ids % 5 == k).any(1).float() for k in range(5)], dim=1)
model = MultiLabel()
criterion = nn.BCEWithLogitsLoss(pos_weight=torch.full((5,), 1.2))
opt = torch.optim.Adagrad(model.parameters(), lr=0.1)
for epoch in range(15):
    for a, b in zip(ids.split(20), tags.split(20)):
        opt.zero_grad()
        loss = criterion(model(a), b)
        loss.backward()
        opt.step()
print(loss.item(), (model.predict(ids) == tags.bool()).float().mean().item())
