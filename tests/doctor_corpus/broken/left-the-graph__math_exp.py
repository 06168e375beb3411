import math
import torch

# MLE of a gaussian; python's math on a tensor
torch.manual_seed(0)
data = torch.randn(200) * 3 + 5
mu = torch.tensor(0.0, requires_grad=True)
log_sigma = torch.tensor(0.3, requires_grad=True)
opt = torch.optim.Adam([mu, log_sigma], lr=0.1)
for it in range(50):
    sigma = math.exp(log_sigma)  # BUG: left-the-graph
    nll = (0.5 * ((data - mu) / sigma) ** 2).mean() + math.log(sigma)
    opt.zero_grad()
    nll.backward()
    opt.step()
print(mu.item(), log_sigma.item())
