import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(1)


class MeanVariance(nn.Module):
    def __init__(self, d=6):
        super().__init__()
        self.enc = nn.Linear(d, 16)
        self.mean = nn.Linear(16, 1)
        self.log_var = nn.Linear(16, 1)
        nn.init.constant_(self.log_var.bias, -95.0)  # "start very certain"

    def forward(self, x):
        h = F.relu(self.enc(x))
        return self.mean(h), self.log_var(h)


def gaussian_nll(mean, log_var, y):
    precision = torch.exp(-log_var)  # BUG: overflow
    return 0.5 * (precision * (y - mean) ** 2 + log_var).mean()


model = MeanVariance()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(10):
    x = torch.randn(16, 6)
    mean, log_var = model(x)
    loss = gaussian_nll(mean, log_var, x[:, :1])
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
