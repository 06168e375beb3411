import torch
from torch import nn
import torch.nn.functional as F


class Trainer:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(6, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Dropout(0.4), nn.Linear(24, 2))
        self.opt = torch.optim.Adam(self.net.parameters(), lr=1e-2)

    def validate(self, x, y):
        self.net.train(False)  # BUG: eval-mode-left-on
        with torch.no_grad():
            return F.cross_entropy(self.net(x), y).item()

    def train_epoch(self, batches):
        for x, y in batches:
            self.opt.zero_grad()
            F.cross_entropy(self.net(x), y).backward()
            self.opt.step()


torch.manual_seed(31)
x = torch.randn(120, 6) * 3 + 1
y = (x[:, 0] > 1).long()
trainer = Trainer()
for epoch in range(5):
    trainer.train_epoch(list(zip(x[:96].split(32), y[:96].split(32))))
    print(epoch, trainer.validate(x[96:], y[96:]))
