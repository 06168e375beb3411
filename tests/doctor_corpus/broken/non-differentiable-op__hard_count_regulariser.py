import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(170)


class Masked(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.score = nn.Parameter(torch.randn(d))
        self.fc = nn.Linear(d, 2)

    def mask(self):
        return (torch.sigmoid(self.score) > 0.5).float()  # BUG: non-differentiable-op

    def forward(self, x):
        return self.fc(x * self.mask())


model = Masked(12)
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.randn(80, 12)
y = (x[:, 0] > 0).long()
for epoch in range(15):
    loss = F.cross_entropy(model(x), y) + 0.01 * model.mask().sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
