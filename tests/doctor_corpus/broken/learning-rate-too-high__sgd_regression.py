import torch
import torch.nn as nn

torch.manual_seed(0)

x = torch.randn(200, 8)
y = x @ torch.randn(8, 1) + 0.05 * torch.randn(200, 1)

model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
criterion = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=3.0)  # BUG: learning-rate-too-high

for epoch in range(5):
    for i in range(0, 200, 50):
        optimizer.zero_grad()
        loss = criterion(model(x[i:i + 50]), y[i:i + 50])
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
