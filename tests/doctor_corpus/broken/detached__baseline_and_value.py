import torch
from torch import nn
from torch.distributions import Categorical


class Agent(nn.Module):
    def __init__(self, states=6, actions=3):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(states, 32), nn.Tanh(), nn.Linear(32, actions))
        self.critic = nn.Sequential(nn.Linear(states, 32), nn.Tanh(), nn.Linear(32, 1))

    def act(self, state):
        dist = Categorical(logits=self.actor(state))
        value = self.critic(state).squeeze(-1)
        return dist, value


def agent_loss(dist, value, action, reward):
    baseline = value.detach()  # BUG: detached
    advantage = reward - baseline
    policy = -(dist.log_prob(action) * advantage).mean()
    critic = nn.functional.smooth_l1_loss(baseline, reward)
    return policy + 0.5 * critic - 0.01 * dist.entropy().mean()


torch.manual_seed(0)
agent = Agent()
optimizer = torch.optim.Adam(agent.parameters(), lr=5e-3)
rule = torch.randn(6, 3)
for update in range(60):
    state = torch.randn(64, 6)
    dist, value = agent.act(state)
    action = dist.sample()
    reward = (action == (state @ rule).argmax(dim=1)).float()
    loss = agent_loss(dist, value, action, reward)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if update % 20 == 0:
        print(update, "reward", reward.mean().item())
print(agent.critic[0].weight.grad)
