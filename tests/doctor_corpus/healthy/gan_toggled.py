import torch
import torch.nn as nn

torch.manual_seed(0)
G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
D = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
og, od = torch.optim.Adam(G.parameters(), 1e-3), torch.optim.Adam(D.parameters(), 1e-3)


def toggle(m, f):
    for p in m.parameters():
        p.requires_grad_(f)


for it in range(15):
    toggle(D, True)
    real = torch.randn(32, 2) + 2
    with torch.no_grad():
        fake = G(torch.randn(32, 4))
    ld = torch.relu(1 - D(real)).mean() + torch.relu(1 + D(fake)).mean()
    od.zero_grad()
    ld.backward()
    od.step()
    toggle(D, False)
    lg = -D(G(torch.randn(32, 4))).mean()
    og.zero_grad()
    lg.backward()
    og.step()
print(ld.item(), lg.item())
