import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(217)
net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.0)


def adjust_learning_rate(optimizer, step, base=0.05, warmup=10, total=60):
    lr = base * (step + 1) / warmup if step < warmup else base * (1 - (step - warmup) / (total - warmup))
    for group in optimizer.param_groups:
        group["lr"] = lr


x = torch.randn(120, 6)
y = x.sum(1, keepdim=True)
for step in range(60):
    adjust_learning_rate(optimizer, step)
    loss = F.mse_loss(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
