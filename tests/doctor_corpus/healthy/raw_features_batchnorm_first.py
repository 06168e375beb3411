import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(121)


class TabularNet(nn.Module):
    """Raw columns go through a batch norm before anything else."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.fc1 = nn.Linear(3, 32)
        self.fc2 = nn.Linear(32, 1)

    def forward(self, x):
        return self.fc2(F.relu(self.fc1(self.norm(x))))


x = torch.stack([torch.rand(128) * 2e5, torch.rand(128) * 60 + 18, torch.rand(128)], dim=1)
y = (x[:, 2:] * 2 + x[:, :1] / 1e5)
model = TabularNet()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(10):
    for a, b in zip(x.split(32), y.split(32)):
        opt.zero_grad()
        loss = F.mse_loss(model(a), b)
        loss.backward()
        opt.step()
    print(epoch, loss.item())
