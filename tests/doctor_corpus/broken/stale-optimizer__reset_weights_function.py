import torch
from torch import nn


class MLP(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.l1 = nn.Linear(d, h)
        self.l2 = nn.Linear(h, 1)

    def forward(self, x):
        return self.l2(torch.tanh(self.l1(x)))


def run(seed, model, optimizer, x, y):
    torch.manual_seed(seed)
    model = MLP(x.shape[1], 16)  # BUG: stale-optimizer
    for _ in range(20):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


torch.manual_seed(146)
x = torch.randn(60, 3)
y = x.prod(1, keepdim=True)
model = MLP(3, 16)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
print(run(7, model, optimizer, x, y))
