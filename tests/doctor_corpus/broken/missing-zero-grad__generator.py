import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(194)
gen = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))
disc = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
g_opt = torch.optim.Adam(gen.parameters(), lr=1e-3)
d_opt = torch.optim.Adam(disc.parameters(), lr=1e-3)
for it in range(15):
    real = torch.randn(24, 2) + 1
    fake = gen(torch.randn(24, 3))
    d_loss = F.softplus(-disc(real)).mean() + F.softplus(disc(fake.detach())).mean()
    d_opt.zero_grad()
    d_loss.backward()
    d_opt.step()
    g_loss = F.softplus(-disc(fake)).mean()
    g_loss.backward()  # BUG: missing-zero-grad
    g_opt.step()
print(d_loss.item(), g_loss.item())
