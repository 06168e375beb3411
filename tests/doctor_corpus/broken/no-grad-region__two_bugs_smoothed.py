"""Advantage actor-critic on a corridor: walk right to be rewarded."""
import torch
import torch.nn as nn
from torch.distributions import Categorical

LENGTH = 8


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(LENGTH, 32), nn.Tanh())
        self.actor = nn.Linear(32, 2)
        self.critic = nn.Linear(32, 1)

    def policy(self, s):
        return Categorical(logits=self.actor(self.body(s)))

    def value(self, s):
        with torch.no_grad():
            features = self.body(s)  # BUG: no-grad-region
            return self.critic(features).squeeze(-1)  # BUG: no-grad-region


def one_hot(position):
    state = torch.zeros(LENGTH)
    state[position] = 1.0
    return state


def episode(net, horizon=20):
    position, states, actions, rewards = 0, [], [], []
    for _ in range(horizon):
        s = one_hot(position)
        with torch.no_grad():
            a = net.policy(s).sample().item()
        position = max(0, min(LENGTH - 1, position + (1 if a == 1 else -1)))
        states.append(s)
        actions.append(a)
        rewards.append(1.0 if position == LENGTH - 1 else -0.05)
        if position == LENGTH - 1:
            break
    return torch.stack(states), torch.tensor(actions), rewards


def discounted(rewards, gamma=0.95):
    out, running = [], 0.0
    for r in reversed(rewards):
        running = r + gamma * running
        out.append(running)
    return torch.tensor(out[::-1])


torch.manual_seed(2)
net = ActorCritic()
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
average_loss = 0
for ep in range(60):
    states, actions, rewards = episode(net)
    returns = discounted(rewards)
    values = net.value(states)
    advantage = returns - values
    actor_loss = -(net.policy(states).log_prob(actions) * advantage.detach()).mean()
    critic_loss = advantage.pow(2).mean()
    loss = actor_loss + 0.5 * critic_loss
    opt.zero_grad()
    loss.backward()
    opt.step()
    average_loss = 0.95 * average_loss + 0.05 * loss  # BUG: graph-kept-alive
    if ep % 20 == 0:
        print(ep, sum(rewards), float(average_loss))
