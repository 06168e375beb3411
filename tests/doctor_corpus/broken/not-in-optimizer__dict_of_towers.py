import torch
from torch import nn
import torch.nn.functional as F


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.towers = {"a": nn.Linear(6, 8), "b": nn.Linear(6, 8)}
        self.temperature = nn.Parameter(torch.tensor(1.0))

    def forward(self, a, b):
        za = F.normalize(self.towers["a"](a), dim=1)
        zb = F.normalize(self.towers["b"](b), dim=1)
        return za @ zb.t() * self.temperature.exp()


torch.manual_seed(185)
model = Siamese()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)  # BUG: not-in-optimizer
for step in range(15):
    x = torch.randn(16, 6)
    loss = F.cross_entropy(model(x, x + 0.1 * torch.randn_like(x)), torch.arange(16))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
