import torch
import torch.nn as nn
from torch.distributions import Normal

torch.manual_seed(1)


class GaussianRegressor(nn.Module):
    LOG_STD_MIN, LOG_STD_MAX = -20, -4

    def __init__(self):
        super().__init__()
        self.mean = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 1))
        self.log_std = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        log_std = torch.clamp(self.log_std, self.LOG_STD_MIN, self.LOG_STD_MAX)  # BUG: clamped
        return Normal(self.mean(x), log_std.exp())


model = GaussianRegressor()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.randn(128, 3)
y = x.sum(1, keepdim=True) + 0.5 * torch.randn(128, 1)
for epoch in range(25):
    nll = -model(x).log_prob(y).mean()
    opt.zero_grad()
    nll.backward()
    opt.step()
    print(epoch, nll.item(), model.log_std.item())
