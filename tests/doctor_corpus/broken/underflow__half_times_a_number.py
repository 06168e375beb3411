import torch
from torch import nn


class Trainer:
    loss_weight = 1e-9

    def __init__(self):
        self.net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def criterion(self, pred, y):
        err = (pred - y).pow(2).mean()
        return err.half() * self.loss_weight  # BUG: underflow
    def step(self, x, y):
        loss = self.criterion(self.net(x), y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return float(loss)


torch.manual_seed(0)
t = Trainer()
for i in range(30):
    x = torch.randn(32, 6)
    v = t.step(x, x[:, :1])
print(v)
