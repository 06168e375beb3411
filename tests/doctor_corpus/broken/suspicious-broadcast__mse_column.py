import torch
import torch.nn as nn

torch.manual_seed(0)
X = torch.randn(120, 4)
y = X[:, 0] * 3 - X[:, 2]

model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
criterion = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(30):
    optimizer.zero_grad()
    out = model(X)
    loss = criterion(out, y)  # BUG: suspicious-broadcast
    loss.backward()
    optimizer.step()
    if epoch % 10 == 0:
        print(epoch, loss.item())
