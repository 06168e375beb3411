import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(21)
policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
critic = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
opt = torch.optim.Adam(policy.parameters(), lr=1e-3)
critic_opt = torch.optim.Adam(critic.parameters(), lr=1e-3)


def actor_loss(obs, act, ret, beta=0.05):
    with torch.no_grad():
        adv = ret - critic(obs).squeeze(1)
    weight = torch.exp(adv / beta)  # BUG: overflow
    logp = F.log_softmax(policy(obs), dim=1).gather(1, act[:, None]).squeeze(1)
    return -(weight * logp).mean()


for step in range(10):
    obs = torch.randn(32, 4)
    act = torch.randint(0, 3, (32,))
    ret = obs[:, 0] * 5
    v_loss = F.mse_loss(critic(obs).squeeze(1), ret)
    critic_opt.zero_grad()
    v_loss.backward()
    critic_opt.step()
    loss = actor_loss(obs, act, ret)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, v_loss.item(), loss.item())
