import torch
import torch.nn as nn
from torch.distributions import Normal

torch.manual_seed(18)


class SacPolicy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 24), nn.ReLU())
        self.mean = nn.Linear(24, 2)
        self.log_std = nn.Linear(24, 2)
        nn.init.constant_(self.mean.bias, 12.0)

    def forward(self, obs):
        h = self.body(obs)
        normal = Normal(self.mean(h), self.log_std(h).clamp(-5, 2).exp())
        raw = normal.rsample()
        action = torch.tanh(raw)
        log_prob = normal.log_prob(raw) - torch.log(1 - action.pow(2))  # BUG: log-of-zero
        return action, log_prob.sum(-1)


policy = SacPolicy()
opt = torch.optim.Adam(policy.parameters(), lr=3e-4)
for step in range(10):
    obs = torch.randn(32, 3)
    action, log_prob = policy(obs)
    q = -(action - obs[:, :2]).pow(2).sum(-1)
    loss = (0.2 * log_prob - q).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
