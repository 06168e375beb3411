import copy

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(85)


class Student(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Linear(6, 16)
        self.out = nn.Linear(16, 2)

    def forward(self, x):
        return self.out(torch.relu(self.features(x)))


def train(model, optimizer, steps):
    x = torch.randn(64, 6)
    y = (x[:, 0] > 0).long()
    for _ in range(steps):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


model = Student()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
print("round 1", train(model, optimizer, 10))
model = copy.deepcopy(model)  # BUG: stale-optimizer
print("round 2", train(model, optimizer, 15))
