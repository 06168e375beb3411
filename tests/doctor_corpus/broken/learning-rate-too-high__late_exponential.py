"""Text-length regression with an exponential schedule."""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Hyper:
    lr: float = 1e-3
    gamma: float = 1.35
    epochs: int = 30


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.seq = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 1))

    def forward(self, x):
        return self.seq(x).squeeze(-1)


def train(hyper):
    x = torch.randn(256, 6)
    y = x[:, 0] - 0.5 * x[:, 1] * x[:, 2]
    net = Net()
    opt = torch.optim.Adam(net.parameters(), lr=hyper.lr)
    schedule = torch.optim.lr_scheduler.ExponentialLR(opt, gamma=hyper.gamma)  # BUG: learning-rate-too-high
    for epoch in range(hyper.epochs):
        for xb, yb in zip(x.split(64), y.split(64)):
            opt.zero_grad()
            loss = nn.functional.mse_loss(net(xb), yb)
            loss.backward()
            opt.step()
        schedule.step()
        if epoch % 5 == 0:
            print(epoch, f"{loss.item():.4f}", schedule.get_last_lr())


torch.manual_seed(1)
train(Hyper())
