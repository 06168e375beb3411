import torch
from torch import nn


class FocalLoss(nn.Module):
    def forward(self, logits, gt):
        pred = logits.sigmoid().clamp(1e-4, 1 - 1e-4)
        pos, neg = gt.eq(1).float(), gt.lt(1).float()
        pos_loss = torch.log(pred) * (1 - pred) ** 2 * pos
        neg_loss = torch.log(1 - pred) * pred ** 2 * (1 - gt) ** 4 * neg
        return -(pos_loss.sum() + neg_loss.sum()) / pos.sum().clamp(min=1)


torch.manual_seed(0)
heat = torch.zeros(24, 1, 10, 10)
for b in range(20):
    r, c = torch.randint(0, 10, (2,)).tolist()
    heat[b, 0, max(r - 1, 0):r + 2, max(c - 1, 0):c + 2] = 0.5
    heat[b, 0, r, c] = 1.0
images = heat + 0.1 * torch.randn_like(heat)
model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1))
model[2].bias.data.fill_(-2.19)
criterion = FocalLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(12):
    for i in range(0, 24, 8):
        loss = criterion(model(images[i:i + 8]), heat[i:i + 8])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if epoch % 3 == 0:
        print(epoch, loss.item())
