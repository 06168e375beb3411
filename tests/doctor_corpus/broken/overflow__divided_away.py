import torch
from torch import nn


class Router(nn.Module):
    """Three experts, weighed by gates that are normalised by hand; somebody has patched the NaNs away."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(6, 3)
        self.experts = nn.ModuleList(nn.Linear(6, 1) for _ in range(3))

    def weights(self, x):
        raw = torch.pow(2.0, self.gate(x).abs() * 300)  # BUG: overflow
        total = raw.sum(dim=1, keepdim=True)
        shares = raw.div(total)
        return torch.nan_to_num(shares, nan=1.0)

    def forward(self, x):
        outputs = torch.cat([expert(x) for expert in self.experts], 1)
        return (outputs * self.weights(x)).sum(1, keepdim=True)


def train():
    torch.manual_seed(6)
    router = Router()
    optimizer = torch.optim.Adam(router.parameters(), lr=1e-3)
    data = torch.randn(80, 6)
    goal = data[:, :1] - data[:, 1:2]
    for epoch in range(8):
        error = nn.functional.smooth_l1_loss(router(data), goal)
        optimizer.zero_grad()
        error.backward()
        optimizer.step()
        print(epoch, error.item())


train()
