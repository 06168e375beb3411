import torch
from torch import nn

torch.manual_seed(215)


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 24), nn.Tanh(), nn.Linear(24, 2))

    def forward(self, y):
        return self.net(y)


def integrate(f, y0, steps, dt):
    ys = [y0]
    for _ in range(steps):
        ys.append(ys[-1] + dt * f(ys[-1]))
    return torch.stack(ys)


A = torch.tensor([[-0.1, 1.0], [-1.0, -0.1]])
field = Field()
opt = torch.optim.Adam(field.parameters(), lr=1e-2)
for it in range(25):
    y0 = torch.randn(16, 2)
    with torch.no_grad():
        truth = integrate(lambda y: y @ A.t(), y0, 15, 0.1)
    loss = (integrate(field, y0, 15, 0.1) - truth).abs().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
