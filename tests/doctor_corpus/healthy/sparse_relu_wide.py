import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(46)


class SparseAutoencoder(nn.Module):
    """Overcomplete; most units are off for most samples, as wanted."""

    def __init__(self, d=12, k=64):
        super().__init__()
        self.enc = nn.Linear(d, k)
        self.dec = nn.Linear(k, d, bias=False)
        nn.init.constant_(self.enc.bias, -0.3)

    def forward(self, x):
        code = F.relu(self.enc(x))
        return self.dec(code), code


data = torch.randn(256, 6) @ torch.randn(6, 12) / 2
model = SparseAutoencoder()
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(6):
    for x in data.split(64):
        recon, code = model(x)
        loss = F.mse_loss(recon, x) + 1e-3 * code.abs().sum(1).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
