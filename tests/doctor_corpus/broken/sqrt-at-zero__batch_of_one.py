import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class MinibatchDeviation(nn.Module):
    def forward(self, x):
        variance = (x - x.mean(dim=0, keepdim=True)).pow(2).mean(dim=0)
        deviation = variance ** 0.5  # BUG: sqrt-at-zero
        extra = deviation.mean().expand(x.shape[0], 1)
        return torch.cat([x, extra], dim=1)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 32)
        self.deviation = MinibatchDeviation()
        self.outer = nn.Linear(33, 1)

    def forward(self, x):
        return self.outer(self.deviation(torch.tanh(self.inner(x))))


torch.manual_seed(0)
points = torch.randn(49, 3)
labels = (points.norm(dim=1, keepdim=True) > 1.5).float()
net = Discriminator()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, betas=(0.5, 0.999))
criterion = nn.BCEWithLogitsLoss()
for epoch in range(3):
    for x, y in DataLoader(TensorDataset(points, labels), batch_size=8):
        loss = criterion(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
