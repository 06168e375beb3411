"""Hyper-network: the generated weights are copied into a layer through .data."""
import torch
import torch.nn as nn


class HyperNet(nn.Module):
    def __init__(self, z=4, i=5, o=3):
        super().__init__()
        self.shape = (o, i)
        self.gen = nn.Sequential(nn.Linear(z, 16), nn.ReLU(), nn.Linear(16, i * o))

    def forward(self, z):
        return self.gen(z).view(self.shape)


class Target(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(5, 3)

    def load_weight(self, w):
        self.lin.weight.data = w.data  # BUG: detached
    def forward(self, x):
        return self.lin(x)


torch.manual_seed(0)
hyper, target = HyperNet(), Target()
z = torch.randn(4)
opt = torch.optim.Adam([*hyper.parameters(), target.lin.bias], lr=1e-2)
W = torch.randn(3, 5)
for step in range(40):
    x = torch.randn(32, 5)
    target.load_weight(hyper(z))
    loss = nn.functional.mse_loss(target(x), x @ W.t())
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 10 == 0:
        print(step, loss.item())
