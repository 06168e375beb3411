import torch
from torch import nn

torch.manual_seed(172)


class D(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
        self.net[2].bias.data.fill_(40.0)

    def forward(self, x):
        return torch.sigmoid(self.net(x))


G = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))
disc = D()
opt_g = torch.optim.Adam(G.parameters(), lr=1e-3)
opt_d = torch.optim.Adam(disc.parameters(), lr=1e-3)
for it in range(6):
    real, fake = torch.randn(16, 2) + 2, G(torch.randn(16, 3))
    d_loss = -torch.mean(torch.log(disc(real)) + torch.log(1 - disc(fake.detach())))  # BUG: log-of-zero
    opt_d.zero_grad()
    d_loss.backward()
    opt_d.step()
    g_loss = -torch.log(disc(fake) + 1e-8).mean()
    opt_g.zero_grad()
    g_loss.backward()
    opt_g.step()
    print(it, d_loss.item(), g_loss.item())
