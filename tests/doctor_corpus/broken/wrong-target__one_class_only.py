import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
scores = torch.rand(120)
x = torch.randn(120, 6) + scores[:, None]
y = scores.long()  # meant: (scores > 0.5).long()

loader = DataLoader(TensorDataset(x, y), batch_size=24, shuffle=True)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
criterion = nn.CrossEntropyLoss()
for epoch in range(6):
    for xb, yb in loader:
        optimizer.zero_grad()
        loss = criterion(model(xb), yb)  # BUG: wrong-target
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
