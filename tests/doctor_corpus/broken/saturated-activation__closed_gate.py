import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(12)


class Gru(nn.Module):
    """A gated cell written out by hand."""

    def __init__(self, n, h):
        super().__init__()
        self.z = nn.Linear(n + h, h)
        self.c = nn.Linear(n + h, h)
        nn.init.constant_(self.z.bias, -30.0)  # remember for long

    def forward(self, x, h):
        xh = torch.cat([x, h], dim=1)
        update = torch.sigmoid(self.z(xh))  # BUG: saturated-activation
        return (1 - update) * h + update * torch.tanh(self.c(xh))


cell, out = Gru(3, 10), nn.Linear(10, 1)
opt = torch.optim.Adam([*cell.parameters(), *out.parameters()], lr=1e-2)
for step in range(20):
    seq = torch.randn(16, 6, 3)
    h = torch.zeros(16, 10)
    for t in range(6):
        h = cell(seq[:, t], h)
    loss = F.mse_loss(out(h).squeeze(1), seq[:, :, 0].sum(1))
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
