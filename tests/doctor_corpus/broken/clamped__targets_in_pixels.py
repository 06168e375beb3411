import torch
from torch import nn


class BoxHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, x):
        box = self.body(x)
        return box.clamp(min=0.0, max=1.0)  # BUG: clamped


torch.manual_seed(0)
x = torch.rand(128, 6)
boxes = 10 + 50 * torch.sigmoid(x @ torch.randn(6, 4))
model = BoxHead()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
criterion = nn.SmoothL1Loss()
for epoch in range(20):
    for i in range(0, 128, 32):
        optimizer.zero_grad()
        loss = criterion(model(x[i:i + 32]), boxes[i:i + 32])
        loss.backward()
        optimizer.step()
    if epoch % 5 == 0:
        print(epoch, loss.item())
