import torch
from torch import nn
import torch.nn.functional as F
from torch.distributions import Normal

torch.manual_seed(31)


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.pi = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 1))
        self.v = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 1))
        self.log_std = nn.Parameter(-0.5 * torch.ones(1))

    def dist(self, obs):
        return Normal(self.pi(obs), self.log_std.exp())


agent = Agent()
opt = torch.optim.Adam(agent.parameters(), lr=3e-3)
for iteration in range(6):
    obs = torch.randn(128, 3)
    with torch.no_grad():
        d = agent.dist(obs)
        act = d.sample()
        old_logp = d.log_prob(act).sum(-1)
        ret = -(act[:, 0] - obs[:, 0]).abs()
        adv = ret - agent.v(obs).squeeze(-1)
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    for epoch in range(4):
        dist = agent.dist(obs)
        ratio = (dist.log_prob(act).sum(-1) - old_logp).exp()
        clipped = torch.clamp(ratio, 0.8, 1.2) * adv
        policy_loss = -torch.min(ratio * adv, clipped).mean()
        value_loss = F.mse_loss(agent.v(obs).squeeze(-1), ret)
        loss = policy_loss + 0.5 * value_loss - 0.01 * dist.entropy().mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
        opt.step()
    print(iteration, ret.mean().item(), loss.item())
