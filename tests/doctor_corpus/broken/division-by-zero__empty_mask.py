import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class MeanPool(nn.Module):
    def forward(self, h, mask):
        mask = mask.unsqueeze(-1).float()
        return (h * mask).sum(1) / mask.sum(1)  # BUG: division-by-zero


class TextNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 12, padding_idx=0)
        self.pool = MeanPool()
        self.fc = nn.Linear(12, 2)

    def forward(self, ids):
        return self.fc(self.pool(self.embed(ids), ids != 0))


ids = torch.randint(1, 50, (40, 6))
ids[17] = 0  # an empty review
labels = (ids[:, 0] > 25).long()
model = TextNet()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(5):
    for i in range(0, 40, 10):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(ids[i:i + 10]), labels[i:i + 10])
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
