import torch
from torch import nn
import torch.nn.functional as F
torch.manual_seed(0)
clean = torch.rand(32, 1, 8, 8).round()
noisy = (clean + 0.4 * torch.randn_like(clean)).clamp(0, 1)
net = nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 1, 3, padding=1))
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
for ep in range(20):
    for i in range(0, 32, 8):
        out = (noisy[i:i + 8] + net(noisy[i:i + 8])).clamp(0, 1)
        loss = F.l1_loss(out, clean[i:i + 8])
        opt.zero_grad()
        loss.backward()
        opt.step()
    if ep % 6 == 0: print(loss.item())
