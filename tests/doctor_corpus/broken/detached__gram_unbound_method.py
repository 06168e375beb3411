"""Neural style on random features: the picture never changes"""
import torch
import torch.nn as nn


def gram(f):
    b, c, h, w = f.shape
    f = torch.Tensor.detach(f).reshape(c, h * w)  # BUG: detached
    return f @ f.t() / (c * h * w)


torch.manual_seed(0)
extractor = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3)).eval()
for p in extractor.parameters():
    p.requires_grad_(False)
style = torch.rand(1, 3, 16, 16)
goal = gram(extractor(style))
image = torch.rand(1, 3, 16, 16, requires_grad=True)
opt = torch.optim.Adam([image], lr=0.05)
for step in range(6):
    opt.zero_grad()
    loss = ((gram(extractor(image)) - goal) ** 2).sum()
    loss.backward()
    opt.step()
    print(step, loss.item())
