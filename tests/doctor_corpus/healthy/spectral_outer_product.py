import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(42)


class OuterFeatures(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(5, 6), nn.Linear(5, 7)
        self.scale = nn.Parameter(torch.ones(6, 1))
        self.out = nn.Linear(42, 1)

    def forward(self, x):
        left, right = self.a(x).unsqueeze(2), self.b(x).unsqueeze(1)
        outer = left * right * self.scale
        grid = torch.arange(6).view(-1, 1) * torch.arange(7).view(1, -1)
        outer = outer / (1.0 + grid)
        return self.out(outer.flatten(1)).squeeze(-1)


x = torch.randn(100, 5)
y = x[:, 0] * x[:, 1] + x[:, 2]
net = OuterFeatures()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for epoch in range(50):
    loss = F.mse_loss(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
