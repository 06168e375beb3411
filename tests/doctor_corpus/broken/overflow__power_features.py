import torch
from torch import nn

torch.manual_seed(5)


class Polynomial(nn.Module):
    def __init__(self, degree):
        super().__init__()
        self.degree = degree
        self.coef = nn.Parameter(torch.zeros(degree + 1))

    def forward(self, x):
        powers = torch.stack([x ** k for k in range(self.degree + 1)], dim=-1)  # BUG: overflow
        return powers @ self.coef


x = torch.linspace(0, 365, 60)
y = torch.sin(x / 365 * 6.28)
model = Polynomial(degree=18)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(10):
    optimizer.zero_grad()
    loss = ((model(x) - y) ** 2).mean()
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
