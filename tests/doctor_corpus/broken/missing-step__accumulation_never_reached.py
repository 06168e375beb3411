import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(6)
ACCUMULATE = 8

x = torch.randn(60, 5)
y = (x.sum(1) > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=12)  # five batches
model = nn.Sequential(nn.Linear(5, 12), nn.ReLU(), nn.Linear(12, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(8):
    optimizer.zero_grad()  # BUG: missing-step
    for i, (xb, yb) in enumerate(loader):
        loss = F.cross_entropy(model(xb), yb) / ACCUMULATE
        loss.backward()  # BUG: missing-step
        if (i + 1) % ACCUMULATE == 0:
            optimizer.step()
            optimizer.zero_grad()
    print(epoch, loss.item())
