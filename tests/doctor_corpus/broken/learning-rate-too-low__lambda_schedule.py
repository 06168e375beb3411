import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

torch.manual_seed(98)
model = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
scheduler = LambdaLR(optimizer, lr_lambda=lambda epoch: 1e-7)  # BUG: learning-rate-too-low
x = torch.randn(96, 4)
y = x.sum(1, keepdim=True)
for epoch in range(10):
    for xb, yb in zip(x.split(24), y.split(24)):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(xb), yb)
        loss.backward()
        optimizer.step()
    scheduler.step()
    print(epoch, loss.item())
