import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(45)
shared = nn.Sequential(nn.Linear(6, 24), nn.Tanh())
reg, cls = nn.Linear(24, 1), nn.Linear(24, 2)
opt = torch.optim.Adam([*shared.parameters(), *reg.parameters(), *cls.parameters()], lr=5e-3)
x = torch.randn(80, 6)
value, label = x.sum(1, keepdim=True), (x[:, 0] > 0).long()
for step in range(40):
    h = shared(x)
    loss_r = F.mse_loss(reg(h), value)
    loss_c = F.cross_entropy(cls(h), label)
    opt.zero_grad()
    loss_r.backward(retain_graph=True)
    loss_c.backward()
    opt.step()
print(loss_r.item(), loss_c.item())
