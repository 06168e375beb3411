import torch
from torch import nn

torch.manual_seed(0)
net_g = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 2))
net_d = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1), nn.Sigmoid())
opt_g = torch.optim.Adam(net_g.parameters(), lr=2e-3)
opt_d = torch.optim.Adam(net_d.parameters(), lr=2e-3)
bce = nn.BCELoss()
for step in range(10):
    real = torch.randn(16, 2) + 2
    for _ in range(2):
        fake = net_g(torch.randn(16, 3))
        g_loss = bce(net_d(fake), torch.ones(16, 1))
        net_g.zero_grad()
        g_loss.backward()  # BUG: backward-twice
        opt_g.step()
    net_d.zero_grad()
    d_loss = bce(net_d(real), torch.ones(16, 1)) + bce(net_d(fake), torch.zeros(16, 1))
    d_loss.backward()  # BUG: backward-twice
    opt_d.step()
    print(step, g_loss.item(), d_loss.item())
