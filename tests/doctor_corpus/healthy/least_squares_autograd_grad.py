import torch

torch.manual_seed(0)
A = torch.randn(30, 5, dtype=torch.float64)
b = torch.randn(30, dtype=torch.float64)
x = torch.zeros(5, dtype=torch.float64, requires_grad=True)
for i in range(100):
    r = A @ x - b
    f = 0.5 * (r * r).sum()
    (g,) = torch.autograd.grad(f, x)
    with torch.no_grad():
        x -= 0.01 * g
print(f.item(), torch.linalg.lstsq(A, b.unsqueeze(1)).solution.squeeze())
