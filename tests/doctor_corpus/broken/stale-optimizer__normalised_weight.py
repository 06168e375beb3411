import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(3)


class Prototypes(nn.Module):
    def __init__(self, n, dim):
        super().__init__()
        self.embed = nn.Linear(6, dim)
        self.centers = nn.Parameter(torch.randn(n, dim))

    def renormalise(self):
        self.centers = nn.Parameter(F.normalize(self.centers.data, dim=1))  # BUG: stale-optimizer

    def forward(self, x):
        return F.normalize(self.embed(x), dim=1) @ self.centers.t() * 5


model = Prototypes(4, 8)
opt = torch.optim.Adam(model.parameters(), lr=0.01)
model.renormalise()
x = torch.randn(80, 6)
y = (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long()
for epoch in range(20):
    loss = F.cross_entropy(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
