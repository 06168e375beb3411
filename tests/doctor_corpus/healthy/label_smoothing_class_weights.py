import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

torch.manual_seed(17)
y = (torch.rand(200) < 0.1).long()
x = torch.randn(200, 6) + 1.5 * y[:, None]
counts = torch.bincount(y).float()
weights = counts.sum() / (2 * counts)
sampler = WeightedRandomSampler(weights[y].tolist(), 200)
loader = DataLoader(TensorDataset(x, y), batch_size=25, sampler=sampler)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 2))
criterion = nn.CrossEntropyLoss(weight=weights, label_smoothing=0.1)
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(5):
    model.train()
    for xb, yb in loader:
        opt.zero_grad()
        loss = criterion(model(xb), yb)
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        print(epoch, (model(x).argmax(1) == y).float().mean().item())
