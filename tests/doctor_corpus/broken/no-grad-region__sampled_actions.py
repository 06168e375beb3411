import torch
from torch import nn
from torch.distributions import Normal

torch.manual_seed(11)


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 2))
        self.critic = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))

    @torch.no_grad()
    def act(self, obs):
        return Normal(self.actor(obs), 0.3).sample()

    @torch.no_grad()
    def log_prob(self, obs, act):
        mean = self.actor(obs)  # BUG: no-grad-region
        return Normal(mean, 0.3).log_prob(act).sum(-1)


ac = ActorCritic()
opt = torch.optim.Adam(ac.parameters(), lr=3e-3)
for update in range(4):
    obs = torch.randn(32, 3)
    act = ac.act(obs)
    reward = -(act - obs[:, :2]).pow(2).sum(-1)
    old = ac.log_prob(obs, act)
    adv = reward - ac.critic(obs).squeeze(-1).detach()
    for _ in range(3):
        ratio = (ac.log_prob(obs, act) - old).exp()
        pi_loss = -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
        loss = pi_loss + 0.5 * (ac.critic(obs).squeeze(-1) - reward).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
