import torch
import torch.nn as nn

torch.manual_seed(0)
gen = nn.Sequential(nn.Linear(3, 12), nn.ReLU(), nn.Linear(12, 2))
dis = nn.Sequential(nn.Linear(2, 12), nn.ReLU(), nn.Linear(12, 1))
opt_gen = torch.optim.Adam(gen.parameters(), lr=1e-3)
opt_dis = torch.optim.Adam(dis.parameters(), lr=1e-3)
bce = nn.BCEWithLogitsLoss()
for i in range(15):
    real, fake = torch.randn(16, 2) * 0.2 + 1, gen(torch.randn(16, 3))
    opt_dis.zero_grad()
    d = bce(dis(real), torch.ones(16, 1)) + bce(dis(fake.detach()), torch.zeros(16, 1))
    d.backward()
    opt_dis.step()
    opt_gen.zero_grad()
    g = bce(dis(fake), torch.ones(16, 1))
    g.backward()  # BUG: missing-step
    opt_dis.step()
    print(i, d.item(), g.item())
