import torch
import torch.nn as nn

torch.manual_seed(0)
n = 120
area = torch.rand(n) * 2500 + 500
rooms = torch.randint(1, 6, (n,)).float()
year = torch.randint(1950, 2020, (n,)).float()
tax = torch.rand(n) * 200000
houses = torch.stack([area, rooms, year, tax], dim=1)
price = (area / 1000 + rooms * 0.3).unsqueeze(1)

model = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
criterion = nn.MSELoss()
for epoch in range(8):
    for i in range(0, n, 30):
        optimizer.zero_grad()
        pred = model(houses[i:i + 30])  # BUG: unnormalised-input
        loss = criterion(pred, price[i:i + 30])
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
