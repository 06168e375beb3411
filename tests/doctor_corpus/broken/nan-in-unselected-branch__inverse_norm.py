import torch
import torch.nn as nn

torch.manual_seed(95)


class Reweight(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(4) * 0.1)

    def forward(self, x):
        s = (x * self.w).sum(1)
        inverse = 1.0 / (x.abs().sum(1) * self.w.norm())  # BUG: nan-in-unselected-branch
        return torch.where(x.abs().sum(1) > 0, s * inverse, torch.zeros_like(s))


model = Reweight()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.randn(30, 4)
x[3] = 0.0
y = torch.rand(30)
for epoch in range(6):
    loss = (model(x) - y).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(epoch, loss.item())
