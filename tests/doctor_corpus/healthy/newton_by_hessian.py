import torch

torch.manual_seed(0)
A = torch.randn(6, 6, dtype=torch.float64)
A = A @ A.t() + torch.eye(6, dtype=torch.float64)
b = torch.randn(6, dtype=torch.float64)
x = torch.zeros(6, dtype=torch.float64, requires_grad=True)
for it in range(4):
    f = 0.5 * x @ A @ x - b @ x + 0.1 * (x ** 4).sum()
    g = torch.autograd.grad(f, x, create_graph=True)[0]
    H = torch.stack([torch.autograd.grad(g[i], x, retain_graph=True)[0] for i in range(6)])
    with torch.no_grad():
        x -= torch.linalg.solve(H, g.detach())
    print(it, f.item())
