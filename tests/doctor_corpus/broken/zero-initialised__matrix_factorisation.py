"""Collaborative filtering with two factor matrices."""
import torch
import torch.nn as nn


class MF(nn.Module):
    def __init__(self, users, items, rank=4):
        super().__init__()
        self.P = nn.Parameter(torch.zeros(users, rank))  # BUG: zero-initialised
        self.Q = nn.Parameter(torch.zeros(items, rank))  # BUG: zero-initialised

    def forward(self, u, i):
        return (self.P[u] * self.Q[i]).sum(-1)


torch.manual_seed(0)
true = torch.randn(20, 3) @ torch.randn(3, 15)
model = MF(20, 15)
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
for step in range(40):
    u = torch.randint(0, 20, (64,))
    i = torch.randint(0, 15, (64,))
    loss = ((model(u, i) - true[u, i]) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
