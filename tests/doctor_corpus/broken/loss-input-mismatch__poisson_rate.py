import torch
from torch import nn
import torch.nn.functional as F


class CountModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(4, 24)
        self.fc2 = nn.Linear(24, 1)

    def forward(self, x):
        return F.softplus(self.fc2(torch.relu(self.fc1(x)))).squeeze(1)


torch.manual_seed(0)
x = torch.rand(240, 4)
counts = torch.poisson(8 * x[:, 0] + 2)
model = CountModel()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
criterion = nn.PoissonNLLLoss()
for epoch in range(15):
    for i in range(0, 240, 60):
        rate = model(x[i:i + 60])
        loss = criterion(rate, counts[i:i + 60])  # BUG: loss-input-mismatch
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if epoch % 5 == 0:
        print(epoch, loss.item(), rate.mean().item(), counts.mean().item())
