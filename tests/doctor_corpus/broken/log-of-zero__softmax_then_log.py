import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 5)
        self.fc.weight.data *= 120

    def forward(self, s):
        return F.softmax(self.fc(s), dim=-1)


def entropy(p):
    return -(p * torch.log(p)).sum(-1)  # BUG: log-of-zero


policy = Policy()
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
for step in range(12):
    s = torch.randn(24, 4)
    p = policy(s)
    reward = s.sum(1)
    loss = -(p[:, 0] * reward).mean() - 0.01 * entropy(p).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
