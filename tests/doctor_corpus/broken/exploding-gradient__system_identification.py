# system identification, unrolled linear dynamics
import torch

torch.manual_seed(2)
A = (torch.randn(6, 6) * 0.9).requires_grad_()
C = torch.randn(1, 6, requires_grad=True)
opt = torch.optim.Adam([A, C], lr=1e-4)
x0 = torch.randn(6)
target = torch.sin(torch.linspace(0, 5, 40))
for it in range(8):
    x = x0
    outs = []
    for t in range(40):
        x = A @ x  # BUG: exploding-gradient
        outs.append(C @ x)
    y = torch.cat(outs)
    loss = ((y - target) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(it, loss.item(), A.grad.norm().item())
