import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(161)


class Gen(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 16 * 2 * 2)
        self.up = nn.Sequential(nn.ConvTranspose2d(16, 8, 2, stride=2), nn.BatchNorm2d(8), nn.ReLU(True), nn.ConvTranspose2d(8, 1, 2, stride=2), nn.Tanh())

    def forward(self, z):
        return self.up(self.fc(z).view(-1, 16, 2, 2))


class Disc(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.LeakyReLU(0.2, True), nn.Flatten(), nn.Linear(128, 1), nn.Sigmoid())

    def forward(self, x):
        return self.net(x)


G, D = Gen(), Disc()
g_opt = torch.optim.Adam(G.parameters(), 2e-3, betas=(0.5, 0.999))
d_opt = torch.optim.Adam(D.parameters(), 1e-3, betas=(0.5, 0.999))
for it in range(20):
    real = torch.zeros(16, 1, 8, 8)
    real[:, :, 2:6, 2:6] = 0.9
    real = real + 0.05 * torch.randn_like(real)
    z = torch.randn(16, 8)
    D.zero_grad()
    d_real = F.binary_cross_entropy(D(real), torch.full((16, 1), 0.9))
    d_real.backward()
    fake = G(z)
    d_fake = F.binary_cross_entropy(D(fake.detach()), torch.zeros(16, 1))
    d_fake.backward()
    d_opt.step()
    G.zero_grad()
    g_loss = F.binary_cross_entropy(D(fake), torch.ones(16, 1))
    g_loss.backward()
    g_opt.step()
print(d_real.item(), d_fake.item(), g_loss.item())
