import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(7)
policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
baseline = nn.Linear(4, 1)
opt = torch.optim.Adam(list(policy.parameters()) + list(baseline.parameters()), lr=1e-2)
for episode in range(30):
    obs = torch.randn(40, 4)
    dist = Categorical(logits=policy(obs))
    action = dist.sample()
    reward = 1.0 + 0.1 * (action == (obs[:, 0] > 0).long()).float()
    value = baseline(obs).squeeze(-1)
    advantage = (reward - value).detach()
    loss = -(dist.log_prob(action) * advantage).mean() + (reward - value).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(reward.mean().item(), loss.item())
