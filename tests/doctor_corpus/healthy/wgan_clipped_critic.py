import torch
from torch import nn

torch.manual_seed(0)
G = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
D = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
opt_g = torch.optim.RMSprop(G.parameters(), lr=5e-4)
opt_d = torch.optim.RMSprop(D.parameters(), lr=5e-4)
for step in range(60):
    for _ in range(3):
        real = 0.5 * torch.randn(64, 2) + torch.tensor([2.0, 1.0])
        fake = G(torch.randn(64, 4)).detach()
        loss_d = -D(real).mean() + D(fake).mean()
        opt_d.zero_grad()
        loss_d.backward()
        opt_d.step()
        for p in D.parameters():
            p.data.clamp_(-0.05, 0.05)
    loss_g = -D(G(torch.randn(64, 4))).mean()
    opt_g.zero_grad()
    loss_g.backward()
    opt_g.step()
    if step % 20 == 0:
        print(step, loss_d.item(), loss_g.item())
