import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(12)


class VAE(nn.Module):
    def __init__(self, d=20, z=3):
        super().__init__()
        self.enc = nn.Linear(d, 32)
        self.mu, self.logvar = nn.Linear(32, z), nn.Linear(32, z)
        self.dec = nn.Sequential(nn.Linear(z, 32), nn.ReLU(), nn.Linear(32, d))

    def forward(self, x):
        h = F.relu(self.enc(x))
        mu, logvar = self.mu(h), self.logvar(h).clamp(-10, 10)
        z = mu + torch.exp(0.5 * logvar) * torch.randn_like(mu)
        return torch.sigmoid(self.dec(z)), mu, logvar


def elbo(recon, x, mu, logvar):
    bce = F.binary_cross_entropy(recon, x, reduction="sum") / len(x)
    return bce - 0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()


data = (torch.rand(200, 3) @ torch.rand(3, 20) > 0.7).float()
vae = VAE()
opt = torch.optim.Adam(vae.parameters(), lr=3e-3)
for epoch in range(8):
    for x in data.split(40):
        recon, mu, logvar = vae(x)
        loss = elbo(recon, x, mu, logvar)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
