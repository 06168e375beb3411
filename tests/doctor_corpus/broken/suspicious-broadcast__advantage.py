import torch
import torch.nn as nn
from torch.distributions import Categorical

torch.manual_seed(104)
policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
value = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
opt = torch.optim.Adam([*policy.parameters(), *value.parameters()], lr=1e-2)
for episode in range(15):
    obs = torch.randn(30, 4)
    dist = Categorical(logits=policy(obs))
    action = dist.sample()
    returns = (action == (obs[:, 0] > 0).long()).float()
    advantage = returns - value(obs)  # BUG: suspicious-broadcast
    actor_loss = -(dist.log_prob(action) * advantage.detach()).mean()
    critic_loss = advantage.pow(2).mean()
    opt.zero_grad()
    (actor_loss + critic_loss).backward()
    opt.step()
    print(episode, returns.mean().item())
