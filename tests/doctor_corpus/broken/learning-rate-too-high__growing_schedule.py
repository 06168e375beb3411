import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.lr_scheduler import ExponentialLR

torch.manual_seed(2)
model = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scheduler = ExponentialLR(optimizer, gamma=1.5)  # BUG: learning-rate-too-high

x = torch.randn(256, 6)
y = (x ** 2).sum(1, keepdim=True)
for epoch in range(20):
    for xb, yb in zip(x.split(64), y.split(64)):
        loss = F.mse_loss(model(xb), yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    scheduler.step()
    print(epoch, scheduler.get_last_lr()[0], loss.item())
