import torch
from torch import nn

torch.manual_seed(3)


def rmse(pred, target):
    mse = ((pred - target) ** 2).mean(dim=1)
    return torch.sqrt(mse).mean()  # BUG: sqrt-at-zero


class ResidualCorrector(nn.Module):
    """Starts as the identity: the correction is zero in the beginning."""

    def __init__(self, d=5):
        super().__init__()
        self.inner = nn.Linear(d, 16)
        self.outer = nn.Linear(16, d)
        nn.init.zeros_(self.outer.weight)
        nn.init.zeros_(self.outer.bias)

    def forward(self, x):
        return x + self.outer(torch.relu(self.inner(x)))


x = torch.randn(40, 5)
clean = x.clone()
clean[10:] += 0.3
model = ResidualCorrector()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(8):
    loss = rmse(model(x), clean)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
