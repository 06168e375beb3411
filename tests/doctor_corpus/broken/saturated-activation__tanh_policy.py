import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(1)


class Actor(nn.Module):
    """Deterministic policy, actions in [-1, 1]."""

    def __init__(self, obs_dim, act_dim):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(obs_dim, 32), nn.ReLU())
        self.mu = nn.Linear(32, act_dim)
        with torch.no_grad():
            self.mu.weight.mul_(300)

    def forward(self, obs):
        return torch.tanh(self.mu(self.trunk(obs)))  # BUG: saturated-activation


actor = Actor(6, 3)
optimizer = torch.optim.Adam(actor.parameters(), lr=3e-4)
teacher = torch.randn(6, 3) * 0.3
for step in range(30):
    obs = torch.randn(64, 6)
    expert = (obs @ teacher).clamp(-0.8, 0.8)
    loss = F.mse_loss(actor(obs), expert)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
