import torch
import torch.nn as nn

torch.manual_seed(6)
policy = nn.Linear(4, 3)
value_scale = nn.Parameter(torch.ones(1))
opt = torch.optim.Adam([*policy.parameters(), value_scale], lr=1e-2)
baseline = torch.zeros(())
for ep in range(30):
    s = torch.randn(20, 4)
    dist = torch.distributions.Categorical(logits=policy(s))
    a = dist.sample()
    r = (a == s[:, :3].argmax(1)).float() * value_scale
    loss = -(dist.log_prob(a) * (r - baseline.detach())).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    baseline = 0.9 * baseline + 0.1 * r.mean()  # BUG: graph-kept-alive
    if ep % 10 == 0:
        print(ep, loss.item(), baseline.item())
