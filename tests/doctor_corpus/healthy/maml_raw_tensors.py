import torch
import torch.nn.functional as F

torch.manual_seed(0)
w1 = (torch.randn(1, 20) * 0.5).requires_grad_()
b1 = torch.zeros(20, requires_grad=True)
w2 = (torch.randn(20, 1) * 0.3).requires_grad_()
b2 = torch.zeros(1, requires_grad=True)
meta = [w1, b1, w2, b2]
opt = torch.optim.Adam(meta, lr=1e-2)


def f(x, p):
    return torch.tanh(x @ p[0] + p[1]) @ p[2] + p[3]


for it in range(20):
    total = 0
    for task in range(3):
        ph = torch.rand(1) * 3
        xs, xq = torch.rand(10, 1) * 6 - 3, torch.rand(10, 1) * 6 - 3
        ys, yq = torch.sin(xs + ph), torch.sin(xq + ph)
        g = torch.autograd.grad(F.mse_loss(f(xs, meta), ys), meta, create_graph=True)
        fast = [p - 0.05 * gi for p, gi in zip(meta, g)]
        total = total + F.mse_loss(f(xq, fast), yq)
    opt.zero_grad()
    total.backward()
    opt.step()
print(total.item())
