import torch

torch.manual_seed(0)
X = torch.randn(100, 3)
y = X @ torch.tensor([1.0, 2.0, -1.0]) + 0.3
w, b = torch.zeros(3, requires_grad=True), torch.zeros(1, requires_grad=True)
for i in range(50):
    loss = ((X @ w + b - y) ** 2).mean()
    gw, gb = torch.autograd.grad(loss, (w, b))
    w = (w - 0.1 * gw).detach().requires_grad_()
    b = (b - 0.1 * gb).detach().requires_grad_()
print(loss.item())
