import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(2)


class CountModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(5, 16)
        self.rate = nn.Linear(16, 1)

    def forward(self, x):
        return F.relu(self.rate(F.relu(self.inp(x)))).squeeze(1)


def poisson_nll(rate, count):
    log_rate = rate.log()  # BUG: log-of-zero
    return (rate - count * log_rate).mean()


model = CountModel()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for it in range(15):
    x = torch.randn(32, 5)
    count = torch.poisson(torch.exp(x[:, 0]))
    loss = poisson_nll(model(x), count)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(it, loss.item())
