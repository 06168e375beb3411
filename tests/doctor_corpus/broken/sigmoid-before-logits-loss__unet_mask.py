import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(1)


class TinyUNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(1, 6, 3, padding=1)
        self.mid = nn.Conv2d(6, 12, 3, padding=1)
        self.up = nn.ConvTranspose2d(12, 6, 2, stride=2)
        self.out = nn.Conv2d(12, 1, 1)

    def forward(self, x):
        skip = F.relu(self.down(x))
        h = F.relu(self.mid(F.max_pool2d(skip, 2)))
        h = torch.cat([self.up(h), skip], dim=1)
        return self.out(h)


def segmentation_loss(logits, mask):
    prob = logits.sigmoid()  # BUG: sigmoid-before-logits-loss
    dice = 1 - (2 * (prob * mask).sum() + 1) / (prob.sum() + mask.sum() + 1)
    bce = F.binary_cross_entropy_with_logits(prob, mask)
    return bce + dice


model = TinyUNet()
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(12):
    img = torch.randn(4, 1, 12, 12)
    mask = (img > 0.3).float()
    loss = segmentation_loss(model(img), mask)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
