import torch
from torch import nn
import torch.nn.functional as F


class Engine:
    def __init__(self, net):
        self.net = net
        self.opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
        self.sched = torch.optim.lr_scheduler.StepLR(self.opt, 10)
        self.scaler = torch.amp.GradScaler("cpu", enabled=False)

    def step(self, x, y):
        self.opt.zero_grad()
        loss = F.cross_entropy(self.net(x), y)
        self.scaler.scale(loss).backward()  # BUG: missing-step
        self.scaler.update()
        self.sched.step()
        return loss.item()


torch.manual_seed(174)
engine = Engine(nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 3)))
x = torch.randn(60, 5)
y = x[:, :3].argmax(1)
for epoch in range(10):
    print(epoch, engine.step(x, y))
