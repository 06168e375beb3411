import torch
from torch import nn

torch.manual_seed(10)


def prune(layer, keep):
    smaller = nn.Linear(layer.in_features, keep)
    smaller.weight.data.copy_(layer.weight.data[:keep])
    smaller.bias.data.copy_(layer.bias.data[:keep])
    return smaller


net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(100, 6)
y = x.sum(1, keepdim=True).tanh()


def fit(steps):
    for _ in range(steps):
        opt.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        opt.step()
    return loss.item()


print("dense", fit(10))
net[0] = prune(net[0], 16)  # BUG: stale-optimizer
net[2] = nn.Linear(16, 1)  # BUG: stale-optimizer
print("pruned", fit(20))
