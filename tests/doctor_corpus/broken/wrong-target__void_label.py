import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(35)
seg = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 3, 1))
opt = torch.optim.Adam(seg.parameters(), lr=1e-2)
for it in range(5):
    image = torch.randn(2, 1, 8, 8)
    mask = (image[:, 0] > 0).long()
    mask[:, 0, :] = 255  # void border
    scores = seg(image)
    loss = F.cross_entropy(scores, mask)  # BUG: wrong-target
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(it, loss.item())
