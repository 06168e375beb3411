import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(213)


class Multi(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 24), nn.ReLU())
        self.heads = nn.ModuleDict({"even": nn.Linear(24, 2), "big": nn.Linear(24, 2)})

    def forward(self, x, task):
        return self.heads[task](self.body(x))


model = Multi()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.randn(80, 8)
labels = {"even": (x[:, 0] > 0).long(), "big": (x[:, 1] > x[:, 2]).long()}
for step in range(40):
    task = ["even", "big"][step % 2]
    loss = F.cross_entropy(model(x, task), labels[task])
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
