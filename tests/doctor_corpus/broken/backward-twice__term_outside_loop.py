import torch

torch.manual_seed(0)
theta = torch.randn(5, requires_grad=True)
basis = torch.randn(50, 5)
scale = torch.exp(theta)  # computed once
reg = (scale ** 2).sum()
target = torch.randn(50)
opt = torch.optim.SGD([theta], lr=0.01)
for step in range(10):
    opt.zero_grad()
    pred = basis @ theta
    loss = ((pred - target) ** 2).mean() + 1e-3 * reg
    loss.backward()  # BUG: backward-twice
    opt.step()
    print(step, loss.item())
