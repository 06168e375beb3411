import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)

rows = torch.randn(100, 5)
rows[37, 2] = float("nan")  # missing measurement in the CSV
price = rows[:, 0] * 2 - rows[:, 1]
dataset = TensorDataset(rows, price)
loader = DataLoader(dataset, batch_size=20, shuffle=True)

model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
criterion = nn.MSELoss()
for epoch in range(4):
    for features, target in loader:
        optimizer.zero_grad()
        prediction = model(features).squeeze(1)  # BUG: nan-input
        loss = criterion(prediction, target)
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
