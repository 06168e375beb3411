import torch
import torch.nn.functional as F

torch.manual_seed(0)
params = [torch.randn(16, 1) * 0.5, torch.zeros(16), torch.randn(1, 16) * 0.25, torch.zeros(1)]
for p in params:
    p.requires_grad_()
meta_opt = torch.optim.Adam(params, lr=1e-3)


def net(x, w):
    return F.linear(torch.tanh(F.linear(x, w[0], w[1])), w[2], w[3])


def adapt(weights, x, y, steps=2):
    for _ in range(steps):
        loss = F.mse_loss(net(x, weights), y)
        grads = torch.autograd.grad(loss, weights, create_graph=True)
        weights = [(w - 0.05 * g).detach().requires_grad_() for w, g in zip(weights, grads)]  # BUG: detached
    return weights


for it in range(10):
    meta_opt.zero_grad()
    x = torch.rand(20, 1) * 2 - 1
    y = torch.sin(3 * x + torch.rand(1))
    fast = adapt(params, x[:10], y[:10])
    meta_loss = F.mse_loss(net(x[10:], fast), y[10:])
    meta_loss.backward()
    meta_opt.step()
