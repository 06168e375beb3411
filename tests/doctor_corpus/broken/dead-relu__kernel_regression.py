import torch
from torch import nn

torch.manual_seed(186)


class Epanechnikov(nn.Module):
    def __init__(self, centers):
        super().__init__()
        self.centers = nn.Parameter(torch.randn(centers, 5) + 8.0)
        self.height = nn.Parameter(torch.ones(centers))

    def forward(self, x):
        d2 = ((x[:, None] - self.centers[None]) ** 2).sum(-1)
        bumps = torch.relu(1 - d2)  # BUG: dead-relu
        return bumps @ self.height


model = Epanechnikov(20)
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.randn(100, 5)
y = x[:, 0].sin()
for step in range(20):
    loss = (model(x) - y).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
