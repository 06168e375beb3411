import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(7)


class Mixture(nn.Module):
    def __init__(self, experts=3):
        super().__init__()
        self.router = nn.Linear(6, experts)
        self.experts = nn.ModuleList(nn.Linear(6, 1) for _ in range(experts))

    def forward(self, x):
        choice = self.router(x).argmax(-1)  # BUG: non-differentiable-op
        onehot = F.one_hot(choice, len(self.experts)).float()
        outs = torch.cat([expert(x) for expert in self.experts], dim=1)
        return (onehot * outs).sum(1)


moe = Mixture()
opt = torch.optim.Adam(moe.parameters(), lr=0.02)
x = torch.randn(120, 6)
y = torch.where(x[:, 0] > 0, x[:, 1], -x[:, 2])
for epoch in range(20):
    loss = F.mse_loss(moe(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
