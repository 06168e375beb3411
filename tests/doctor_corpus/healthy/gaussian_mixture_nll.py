import math

import torch
import torch.nn as nn

torch.manual_seed(30)


class MDN(nn.Module):
    def __init__(self, k=3):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(1, 24), nn.Tanh())
        self.pi = nn.Linear(24, k)
        self.mu = nn.Linear(24, k)
        self.log_sigma = nn.Linear(24, k)

    def forward(self, x):
        h = self.body(x)
        return self.pi(h).log_softmax(-1), self.mu(h), self.log_sigma(h).clamp(min=-5)


def nll(log_pi, mu, log_sigma, y):
    z = (y - mu) / log_sigma.exp()
    log_prob = -0.5 * z ** 2 - log_sigma - 0.5 * math.log(2 * math.pi)
    return -torch.logsumexp(log_pi + log_prob, dim=-1).mean()


x = torch.rand(150, 1) * 4 - 2
y = torch.where(torch.rand(150, 1) > 0.5, x, -x) + 0.1 * torch.randn(150, 1)
model = MDN()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(40):
    loss = nll(*model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
