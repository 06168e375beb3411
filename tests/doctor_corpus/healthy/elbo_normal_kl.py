import torch
import torch.nn as nn
from torch.distributions import Normal, kl_divergence

torch.manual_seed(62)


class BayesLinear(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.mu = nn.Parameter(0.1 * torch.randn(o, i))
        self.rho = nn.Parameter(torch.full((o, i), -3.0))
        self.bias = nn.Parameter(torch.zeros(o))

    def forward(self, x):
        q = Normal(self.mu, nn.functional.softplus(self.rho))
        self.kl = kl_divergence(q, Normal(torch.zeros_like(self.mu), 1.0)).sum()
        return nn.functional.linear(x, q.rsample(), self.bias)


l1, l2 = BayesLinear(3, 16), BayesLinear(16, 1)
opt = torch.optim.Adam([*l1.parameters(), *l2.parameters()], lr=1e-2)
x = torch.randn(150, 3)
y = x[:, :1] * 2 - x[:, 1:2]
for step in range(60):
    out = l2(torch.tanh(l1(x)))
    loss = nn.functional.mse_loss(out, y) + 1e-4 * (l1.kl + l2.kl)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
