import torch
from torch import nn
import torch.nn.functional as F


class Config:
    lr = 1e-7
    momentum = 0.9
    epochs = 10


class Trainer:
    def __init__(self, cfg):
        torch.manual_seed(193)
        self.cfg = cfg
        self.net = nn.Sequential(nn.Conv1d(2, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(8, 3))
        self.opt = torch.optim.SGD(self.net.parameters(), lr=cfg.lr, momentum=cfg.momentum)  # BUG: learning-rate-too-low

    def run(self, x, y):
        for epoch in range(self.cfg.epochs):
            for a, b in zip(x.split(20), y.split(20)):
                self.opt.zero_grad()
                loss = F.cross_entropy(self.net(a), b)
                loss.backward()
                self.opt.step()
            print(epoch, loss.item())


y = torch.arange(60) % 3
x = torch.randn(60, 2, 12) + y.view(-1, 1, 1)
Trainer(Config).run(x, y)
