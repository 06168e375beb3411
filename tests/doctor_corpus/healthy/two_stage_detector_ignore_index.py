import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(214)
seg = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 3, 1))
opt = torch.optim.AdamW(seg.parameters(), lr=1e-2)
for step in range(20):
    img = torch.randn(4, 1, 8, 8)
    mask = (img[:, 0] > 0).long() + (img[:, 0] > 1).long()
    mask[:, 0] = 255
    loss = F.cross_entropy(seg(img), mask, ignore_index=255)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
