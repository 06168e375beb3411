import torch
from torch import nn
import math

torch.manual_seed(191)


class GMM(nn.Module):
    def __init__(self, k=3):
        super().__init__()
        self.mu = nn.Parameter(torch.tensor([-50.0, 0.0, 50.0]))
        self.log_sigma = nn.Parameter(torch.full((k,), -2.0))
        self.logits = nn.Parameter(torch.zeros(k))

    def log_likelihood(self, x):
        sigma = self.log_sigma.exp()
        density = torch.exp(-0.5 * ((x[:, None] - self.mu) / sigma) ** 2) / (sigma * math.sqrt(2 * math.pi))  # BUG: underflow
        mixture = (density * self.logits.softmax(0)).sum(1)
        return mixture.log()


gmm = GMM()
opt = torch.optim.Adam(gmm.parameters(), lr=0.05)
x = torch.cat([torch.randn(30) - 20, torch.randn(30) + 20])
for step in range(10):
    loss = -gmm.log_likelihood(x).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
