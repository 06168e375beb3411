import torch
import torch.nn as nn

torch.manual_seed(0)
G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
D = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
og, od = torch.optim.Adam(G.parameters(), 1e-3), torch.optim.Adam(D.parameters(), 1e-3)
bce = nn.BCEWithLogitsLoss()


def set_grad(net, flag):
    for p in net.parameters():
        p.requires_grad = flag  # BUG: frozen-parameter


for it in range(25):
    z = torch.randn(32, 4)
    set_grad(D, False)
    og.zero_grad()
    lg = bce(D(G(z)), torch.ones(32, 1))
    lg.backward()
    og.step()

    od.zero_grad()
    real = torch.randn(32, 2) + 1
    with torch.no_grad():
        fake = G(z)
    ld = bce(D(real), torch.ones(32, 1)) + bce(D(fake), torch.zeros(32, 1)) + 1e-4 * sum((p ** 2).sum() for p in G.parameters())
    ld.backward()
    od.step()
    if it % 8 == 0:
        print(it, lg.item(), ld.item())
