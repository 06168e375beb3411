import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(26)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.e1 = nn.Conv2d(1, 8, 3, padding=1)
        self.e2 = nn.Conv2d(8, 16, 3, padding=1)
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.d1 = nn.Conv2d(16, 8, 3, padding=1)
        self.out = nn.Conv2d(8, 1, 1)

    def forward(self, x):
        a = F.relu(self.e1(x))
        b = F.relu(self.e2(F.max_pool2d(a, 2)))
        return self.out(F.relu(self.d1(torch.cat([self.up(b), a], 1))))


def dice_loss(logits, mask, eps=1.0):
    p = torch.sigmoid(logits).flatten(1)
    m = mask.flatten(1)
    return (1 - (2 * (p * m).sum(1) + eps) / (p.sum(1) + m.sum(1) + eps)).mean()


net = UNet()
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
for step in range(20):
    mask = torch.zeros(4, 1, 12, 12)
    mask[:, :, 3:8, 4:9] = 1
    img = mask + 0.3 * torch.randn_like(mask)
    logits = net(img)
    loss = dice_loss(logits, mask) + F.binary_cross_entropy_with_logits(logits, mask)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
