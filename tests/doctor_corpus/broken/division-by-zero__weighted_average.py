import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(92)


class WeightedMSE(nn.Module):
    def forward(self, pred, target, weight):
        err = weight * (pred - target) ** 2
        return err.sum() / weight.sum()  # BUG: division-by-zero


x = torch.randn(64, 4)
y = x[:, :1]
w = (torch.rand(64, 1) > 0.5).float()
w[48:] = 0.0  # the last batch was not annotated
loader = DataLoader(TensorDataset(x, y, w), batch_size=16)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
criterion = WeightedMSE()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(3):
    for xb, yb, wb in loader:
        loss = criterion(model(xb), yb, wb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
