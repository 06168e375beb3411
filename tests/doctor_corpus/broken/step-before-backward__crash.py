import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
x = torch.randn(64, 5)
y = x.sum(1, keepdim=True)
for epoch in range(10):
    prediction = model(x)
    loss = F.mse_loss(prediction, y)
    optimizer.step()  # BUG: step-before-backward
    optimizer.zero_grad()
    loss.backward()
    print(epoch, loss.item())
