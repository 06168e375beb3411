import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)


class Whiten(nn.Module):
    def forward(self, x):
        return (x - x.mean(dim=0)) / x.std(dim=0)  # BUG: division-by-zero


model = nn.Sequential(nn.Linear(6, 10), Whiten(), nn.ReLU(), nn.Linear(10, 1))
x = torch.randn(33, 6)
y = x[:, :1]
loader = DataLoader(TensorDataset(x, y), batch_size=8)
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(3):
    for xb, yb in loader:
        opt.zero_grad()
        loss = F.mse_loss(model(xb), yb)
        loss.backward()
        opt.step()
    print("epoch", epoch, loss.item())
