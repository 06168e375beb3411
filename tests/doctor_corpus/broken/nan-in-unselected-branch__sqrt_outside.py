import torch
from torch import nn

torch.manual_seed(22)


class Lens(nn.Module):
    """Height of a spherical cap; zero outside of the lens."""

    def __init__(self):
        super().__init__()
        self.radius = nn.Parameter(torch.tensor(1.0))
        self.shift = nn.Parameter(torch.zeros(2))

    def forward(self, xy):
        r2 = (xy - self.shift).pow(2).sum(-1)
        inside = r2 < self.radius ** 2
        cap = torch.sqrt(self.radius ** 2 - r2)  # BUG: nan-in-unselected-branch
        return torch.where(inside, cap, torch.zeros_like(cap))


xy = torch.rand(200, 2) * 3 - 1.5
height = (1.2 ** 2 - xy.pow(2).sum(-1)).clamp(min=0).sqrt()
lens = Lens()
opt = torch.optim.Adam(lens.parameters(), lr=0.01)
for step in range(8):
    loss = (lens(xy) - height).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
