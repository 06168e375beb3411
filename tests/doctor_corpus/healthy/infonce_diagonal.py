import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
f = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 8))
opt = torch.optim.Adam(f.parameters(), lr=1e-3)
for i in range(15):
    x = torch.randn(16, 10)
    z = F.normalize(f(torch.cat([x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x)])), dim=1)
    sim = z @ z.t() / 0.1
    sim.fill_diagonal_(-1e9)
    target = (torch.arange(32) + 16) % 32
    loss = F.cross_entropy(sim, target)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
