import torch
from torch import nn

torch.manual_seed(148)


def focal_loss(p, y, gamma=2.0):
    p = torch.clamp(p, 0.0, 0.2)  # BUG: clamped
    pt = y * p + (1 - y) * (1 - p)
    return (-(1 - pt) ** gamma * torch.log(pt + 1e-6)).mean()


net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid())
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
x = torch.randn(80, 5)
y = (x[:, :1] > 0).float()
for epoch in range(15):
    loss = focal_loss(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(epoch, loss.item())
