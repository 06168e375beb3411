import numpy as np
import torch
from torch import nn


def make_table():
    rng = np.random.default_rng(5)
    salary = rng.uniform(20_000, 180_000, 100)
    age = rng.uniform(18, 70, 100)
    ratio = rng.uniform(0, 1, 100)
    x = np.column_stack([salary, age, ratio]).astype(np.float32)
    y = (ratio > 0.5).astype(np.int64)
    return torch.from_numpy(x), torch.from_numpy(y)


class Credit(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 24), nn.ReLU(), nn.Linear(24, 2))

    def forward(self, table):
        return self.net(table)


torch.manual_seed(108)
x, y = make_table()
model = Credit()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
lossf = nn.CrossEntropyLoss()
for epoch in range(15):
    opt.zero_grad()
    loss = lossf(model(x), y)  # BUG: unnormalised-input
    loss.backward()
    opt.step()
    print(epoch, loss.item())
