import torch
from torch import nn


class RootFeatures(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.shift = nn.Linear(dim, dim)

    def forward(self, x):
        z = self.shift(x)
        root = torch.sqrt(z)  # BUG: nan-in-unselected-branch
        return torch.where(z > 0, root, torch.zeros_like(z))


torch.manual_seed(0)
x = torch.randn(64, 5)
y = x.abs().sum(dim=1, keepdim=True).sqrt()
model = nn.Sequential(RootFeatures(5), nn.Linear(5, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(5):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
print("weights are NaN:", model[0].shift.weight.isnan().any().item())
