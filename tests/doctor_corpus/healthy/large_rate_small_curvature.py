import torch

# quadratic with tiny curvature: lr 100 is right
torch.manual_seed(0)
x = torch.randn(4, requires_grad=True)
opt = torch.optim.SGD([x], lr=100.0)
for i in range(40):
    loss = 1e-3 * (x - 2).pow(2).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(x, loss.item())
