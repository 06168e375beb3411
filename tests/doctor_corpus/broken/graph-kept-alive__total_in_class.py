import torch
from torch import nn
import torch.nn.functional as F


class Trainer:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-2)
        self.epoch_loss = torch.zeros(())

    def step(self, x, y):
        out = self.model(x)
        loss = F.mse_loss(out, y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.epoch_loss = self.epoch_loss + loss  # BUG: graph-kept-alive


torch.manual_seed(101)
trainer = Trainer()
for i in range(30):
    x = torch.randn(16, 5)
    trainer.step(x, x[:, :1])
print(trainer.epoch_loss / 30)
