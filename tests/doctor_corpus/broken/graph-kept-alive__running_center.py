import torch
import torch.nn.functional as F
from torch import nn


class DinoLoss(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.register_buffer("center", torch.zeros(d))

    def forward(self, s, t):
        p = F.softmax((t - self.center) / 0.5, -1)
        loss = -(p * F.log_softmax(s / 0.5, -1)).sum(-1).mean()
        self.center = 0.9 * self.center + 0.1 * t.mean(0)  # BUG: graph-kept-alive
        return loss


torch.manual_seed(0)
net, crit = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 6)), DinoLoss(6)
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for _ in range(10):
    x = torch.randn(32, 8)
    loss = crit(net(x), net(x + 0.1 * torch.randn_like(x)))
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
