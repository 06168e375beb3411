import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(66)
net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1)).eval()
for p in net.parameters():
    p.requires_grad_(False)


def gram(f):
    b, c, h, w = f.shape
    f = f.reshape(b, c, h * w)
    return f @ f.transpose(1, 2) / (c * h * w)


style = gram(net(torch.rand(1, 3, 12, 12)))
image = torch.rand(1, 3, 12, 12, requires_grad=True)
opt = torch.optim.Adam([image], lr=0.05)
for step in range(30):
    opt.zero_grad()
    loss = 1e3 * F.mse_loss(gram(net(image)), style)
    loss.backward()
    opt.step()
    with torch.no_grad():
        image.clamp_(0, 1)
print(loss.item())
