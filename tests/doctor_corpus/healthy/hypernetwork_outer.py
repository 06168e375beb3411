import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(219)


class Hyper(nn.Module):
    """Makes the weights of a small net for every task."""

    def __init__(self, z=3, d=4, h=8):
        super().__init__()
        self.d, self.h = d, h
        self.gen = nn.Sequential(nn.Linear(z, 32), nn.ReLU(), nn.Linear(32, d * h + h + h))

    def forward(self, z, x):
        w = self.gen(z) * 0.3
        w1 = w[:, : self.d * self.h].view(-1, self.h, self.d)
        b1 = w[:, self.d * self.h : self.d * self.h + self.h]
        w2 = w[:, -self.h :]
        hidden = torch.tanh(torch.einsum("bhd,bnd->bnh", w1, x) + b1[:, None])
        return (hidden * w2[:, None]).sum(-1)


net = Hyper()
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
for step in range(60):
    z = torch.randn(16, 3)
    x = torch.randn(16, 10, 4)
    target = (x[..., :3] * z[:, None]).sum(-1).tanh()
    loss = F.mse_loss(net(z, x), target)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
