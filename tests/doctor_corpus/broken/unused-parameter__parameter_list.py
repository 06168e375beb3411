import torch
import torch.nn as nn

torch.manual_seed(183)


class Poly(nn.Module):
    def __init__(self, degree):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1))
        self.linear = nn.Parameter(torch.randn(1) * 0.1)
        self.cubic = nn.Parameter(torch.randn(1) * 0.1)  # BUG: unused-parameter
        self.quadratic = nn.Parameter(torch.randn(1) * 0.1)

    def forward(self, x):
        return self.bias + self.linear * x + self.quadratic * x ** 2 + self.linear * x ** 3


model = Poly(3)
opt = torch.optim.Adam(model.parameters(), lr=0.05)
x = torch.linspace(-1, 1, 60)
y = 1 + 2 * x - x ** 3
for step in range(50):
    loss = (model(x) - y).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
