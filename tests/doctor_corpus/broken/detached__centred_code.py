import torch
import torch.nn as nn
import torch.nn.functional as F


class AutoEncoder(nn.Module):
    def __init__(self, d=12, k=3):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(d, 24), nn.GELU(), nn.Linear(24, k))
        self.dec = nn.Sequential(nn.Linear(k, 24), nn.GELU(), nn.Linear(24, d))
        self.register_buffer("mean", torch.zeros(k))

    def forward(self, x):
        z = self.enc(x)
        if self.training:
            self.mean.mul_(0.9).add_(z.data.mean(0), alpha=0.1)

        code = (z - self.mean).data  # BUG: detached
        return self.dec(code)


torch.manual_seed(2)
basis = torch.randn(3, 12)
model = AutoEncoder()
opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
for step in range(15):
    x = torch.randn(32, 3) @ basis
    loss = F.mse_loss(model(x), x)
    opt.zero_grad()
    loss.backward()
    opt.step()
