import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(231)
actor = nn.Linear(4, 2)
critic = nn.Linear(4, 1)
actor_opt = torch.optim.Adam(actor.parameters(), lr=1e-2)
critic_opt = torch.optim.Adam(critic.parameters(), lr=1e-2)
for step in range(20):
    s = torch.randn(32, 4)
    value = critic(s).squeeze(1)
    logp = F.log_softmax(actor(s), 1)
    action = torch.distributions.Categorical(logits=logp).sample()
    ret = (action == (s[:, 0] > 0).long()).float()
    actor_loss = -(logp[torch.arange(32), action] * (ret - value.detach())).mean()
    actor_opt.zero_grad()
    actor_loss.backward()
    actor_opt.step()
    critic_loss = F.mse_loss(value, ret)
    critic_opt.step()  # BUG: step-before-backward
    critic_opt.zero_grad()
    critic_loss.backward()
    if step % 5 == 0:
        print(step, critic_loss.item(), ret.mean().item())
