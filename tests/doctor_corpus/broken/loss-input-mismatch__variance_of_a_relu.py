import torch
import torch.nn.functional as F
from torch import nn


class Uncertain(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 24)
        self.head = nn.Linear(24, 2)

    def forward(self, x):
        mean, spread = self.head(torch.tanh(self.body(x))).chunk(2, dim=1)
        return mean, F.relu(spread)


torch.manual_seed(0)
x = torch.randn(120, 3)
y = x.sum(dim=1, keepdim=True) + 0.2 * torch.randn(120, 1)
model = Uncertain()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(10):
    for i in range(0, 120, 40):
        mean, variance = model(x[i:i + 40])
        loss = F.gaussian_nll_loss(mean, y[i:i + 40], variance)  # BUG: loss-input-mismatch
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
