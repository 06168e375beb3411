import torch
from torch import nn

torch.manual_seed(13)


class InvertedResidual(nn.Module):
    def __init__(self, c, expand):
        super().__init__()
        self.expand = nn.Conv2d(c, c * expand, 1)
        self.act = nn.ReLU6()
        self.project = nn.Conv2d(c * expand, c, 1)
        nn.init.constant_(self.expand.bias, 20.0)

    def forward(self, x):
        h = self.expand(x)
        h = self.act(h)  # BUG: clamped
        return x + self.project(h)


model = nn.Sequential(InvertedResidual(3, 4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for it in range(20):
    y = torch.randint(0, 2, (8,))
    x = torch.rand(8, 3, 5, 5) + y.view(-1, 1, 1, 1)
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
