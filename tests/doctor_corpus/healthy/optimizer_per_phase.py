import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(70)


class AE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 3))
        self.dec = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 10))
        self.cls = nn.Linear(3, 2)

    def forward(self, x):
        z = self.enc(x)
        return self.dec(z), self.cls(z)


x = torch.randn(100, 3) @ torch.randn(3, 10)
y = (x[:, 0] > 0).long()
model = AE()
opt = torch.optim.Adam([*model.enc.parameters(), *model.dec.parameters()], lr=1e-2)
for step in range(25):
    recon, _ = model(x)
    loss = F.mse_loss(recon, x)
    opt.zero_grad()
    loss.backward()
    opt.step()
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(25):
    recon, logits = model(x)
    loss = F.mse_loss(recon, x) + F.cross_entropy(logits, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
