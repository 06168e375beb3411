import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for task in range(40):
    before = [p.detach().clone() for p in net.parameters()]
    x = torch.rand(16, 1) * 4 - 2
    y = torch.sin(x + torch.rand(1))
    inner = nn.functional.mse_loss(net(x), y)
    slopes = torch.autograd.grad(inner, list(net.parameters()))
    for p, slope in zip(net.parameters(), slopes):
        p.data = p.data - 0.05 * slope  # first-order meta-learning: the moved weights are leaves
    outer = nn.functional.mse_loss(net(x), y)
    opt.zero_grad()
    outer.backward()
    for p, old in zip(net.parameters(), before):
        p.data = old
    opt.step()
print(outer.item())
