import torch
import torch.nn as nn

torch.manual_seed(0)
pi = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
log_std = nn.Parameter(torch.zeros(1))
opt = torch.optim.Adam([*pi.parameters(), log_std], lr=1e-3)
s = torch.randn(50, 3)
a = torch.randn(50)
adv = torch.randn(50)
for i in range(10):
    dist = torch.distributions.Normal(pi(s), log_std.exp())
    logp = dist.log_prob(a)  # BUG: suspicious-broadcast
    loss = -(logp * adv).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
