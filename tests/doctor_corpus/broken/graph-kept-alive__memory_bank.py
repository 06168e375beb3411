"""contrastive learning with a memory bank"""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
enc = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 8))
opt = torch.optim.SGD(enc.parameters(), lr=1e-2)
bank = torch.randn(16, 8)
for it in range(15):
    x = torch.randn(8, 10)
    z1, z2 = F.normalize(enc(x), dim=1), F.normalize(enc(x + 0.1 * torch.randn_like(x)), dim=1)
    pos = (z1 * z2).sum(1, keepdim=True)
    neg = z1 @ bank.detach().t()
    loss = F.cross_entropy(torch.cat([pos, neg], 1) / 0.2, torch.zeros(8, dtype=torch.long))
    opt.zero_grad()
    loss.backward()
    opt.step()
    bank = torch.cat([bank, z2])  # BUG: graph-kept-alive
    print(it, loss.item(), len(bank))
