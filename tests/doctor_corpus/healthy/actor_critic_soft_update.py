import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(48)


def mlp(i, o, last=None):
    layers = [nn.Linear(i, 32), nn.ReLU(), nn.Linear(32, o)]
    return nn.Sequential(*layers, *([last] if last else []))


actor, critic = mlp(3, 1, nn.Tanh()), mlp(4, 1)
actor_target, critic_target = mlp(3, 1, nn.Tanh()), mlp(4, 1)
actor_target.load_state_dict(actor.state_dict())
critic_target.load_state_dict(critic.state_dict())
a_opt = torch.optim.Adam(actor.parameters(), lr=1e-3)
c_opt = torch.optim.Adam(critic.parameters(), lr=3e-3)


def soft_update(target, source, tau=0.05):
    for t, s in zip(target.parameters(), source.parameters()):
        t.data.copy_(tau * s.data + (1 - tau) * t.data)


for step in range(30):
    s = torch.randn(64, 3)
    a = (actor(s).detach() + 0.3 * torch.randn(64, 1)).clamp(-1, 1)
    r = -(a - s[:, :1].tanh()).pow(2)
    s2 = torch.randn(64, 3)
    with torch.no_grad():
        target = r + 0.5 * critic_target(torch.cat([s2, actor_target(s2)], 1))
    c_loss = F.mse_loss(critic(torch.cat([s, a], 1)), target)
    c_opt.zero_grad()
    c_loss.backward()
    c_opt.step()
    a_loss = -critic(torch.cat([s, actor(s)], 1)).mean()
    a_opt.zero_grad()
    a_loss.backward()
    a_opt.step()
    soft_update(critic_target, critic)
    soft_update(actor_target, actor)
print(c_loss.item(), a_loss.item())
