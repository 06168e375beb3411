import torch
from torch import nn
from torch.distributions import Normal

torch.manual_seed(4)


def body(inputs, width):
    return nn.Sequential(nn.Linear(inputs, width), nn.ELU(), nn.Linear(width, width), nn.ELU())


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = body(3, 24)
        self.mean = nn.Linear(24, 2)
        self.log_std = nn.Parameter(torch.full((2,), -0.5))

    def distribution(self, state):
        features = self.body(state)
        frozen = features.detach()  # BUG: detached
        return Normal(self.mean(frozen), self.log_std.exp())


policy = Policy()
optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)


@torch.no_grad()
def play(steps):
    states, actions, chances, gains = [], [], [], []
    state = torch.zeros(3)
    for _ in range(steps):
        before = policy.distribution(state)
        action = before.sample()
        states.append(state)
        actions.append(action)
        chances.append(before.log_prob(action).sum())
        gains.append(-(action - 0.4).pow(2).sum())
        state = 0.9 * state + 0.1 * torch.cat([action, gains[-1][None]])
    return torch.stack(states), torch.stack(actions), torch.stack(chances), torch.stack(gains)


for update in range(12):
    states, actions, old, gains = play(24)
    advantage = (gains - gains.mean()) / (gains.std() + 1e-6)
    for _ in range(2):
        ratio = (policy.distribution(states).log_prob(actions).sum(-1) - old).exp()
        clipped = ratio.clamp(0.8, 1.2)
        loss = -torch.min(ratio * advantage, clipped * advantage).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(update, gains.mean().item())
