import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Categorical

torch.manual_seed(4)


class ActorCritic(nn.Module):
    def __init__(self, obs, actions):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(obs, 16), nn.Tanh(), nn.Linear(16, actions))
        self.critic = nn.Sequential(nn.Linear(obs, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, obs):
        return Categorical(logits=self.actor(obs)), self.critic(obs).squeeze(-1)


def a2c_loss(dist, values, actions, returns):
    advantage = returns - values.detach()
    policy_loss = -(dist.log_prob(actions) * advantage).mean()
    value_loss = F.mse_loss(values.detach(), returns)  # BUG: detached
    return policy_loss + 0.5 * value_loss - 0.01 * dist.entropy().mean()


agent = ActorCritic(4, 2)
optimizer = torch.optim.Adam(agent.parameters(), lr=0.01)
for update in range(25):
    obs = torch.randn(32, 4)
    dist, values = agent(obs)
    actions = dist.sample()
    returns = (actions == (obs[:, 0] > 0).long()).float() + obs[:, 1]
    loss = a2c_loss(dist, values, actions, returns)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if update % 5 == 0:
        print(update, loss.item(), returns.mean().item())
