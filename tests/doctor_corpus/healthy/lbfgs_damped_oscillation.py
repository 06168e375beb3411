import torch

torch.manual_seed(0)
t = torch.linspace(0, 10, 60, dtype=torch.float64)
obs = 2.0 * torch.exp(-0.3 * t) * torch.cos(1.7 * t) + 0.01 * torch.randn(60, dtype=torch.float64)
theta = torch.tensor([1.5, 0.5, 1.6], dtype=torch.float64, requires_grad=True)
opt = torch.optim.LBFGS([theta], lr=1, max_iter=20, line_search_fn="strong_wolfe")


def closure():
    opt.zero_grad()
    a, g, w = theta
    loss = (a * torch.exp(-g * t) * torch.cos(w * t) - obs).pow(2).sum()
    loss.backward()
    return loss


for i in range(4):
    opt.step(closure)
print(theta, closure().item())
