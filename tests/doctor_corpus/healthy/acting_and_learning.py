import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(8)


class Agent(nn.Module):
    """The critic looks at the features and does not shape them; the policy does."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(4, 20), nn.Tanh())
        self.policy = nn.Linear(20, 3)
        self.critic = nn.Linear(20, 1)

    def forward(self, state):
        h = self.features(state)
        return Categorical(logits=self.policy(h)), self.critic(h.detach()).squeeze(-1)


agent = Agent()
optimizer = torch.optim.Adam(agent.parameters(), lr=2e-3)
targets = torch.randn(4, 3)
for update in range(10):
    with torch.no_grad():
        states = torch.randn(32, 4)
        old, values = agent(states)
        actions = old.sample()
        rewards = (states @ targets).gather(1, actions[:, None]).squeeze(1)
        before = old.log_prob(actions)
    now, predicted = agent(states)
    ratio = (now.log_prob(actions) - before).exp()
    gain = rewards - values
    loss = -torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean() + 0.5 * (predicted - rewards).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(update, rewards.mean().item())
