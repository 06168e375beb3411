import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(154)


def make_optimizer(model, lr=3e-9):
    decay = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": decay, "weight_decay": 0.0}, {"params": rest, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=lr)  # BUG: learning-rate-too-low


model = nn.Sequential(nn.Linear(6, 24), nn.GELU(), nn.Linear(24, 3))
opt = make_optimizer(model)
x = torch.randn(90, 6)
y = x[:, :3].argmax(1)
for epoch in range(12):
    for a, b in zip(x.split(30), y.split(30)):
        opt.zero_grad()
        loss = F.cross_entropy(model(a), b)
        loss.backward()
        opt.step()
    print(epoch, loss.item())
