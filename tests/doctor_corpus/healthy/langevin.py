import torch

torch.manual_seed(0)
theta = torch.zeros(2, requires_grad=True)
data = torch.randn(100, 2) + torch.tensor([1.0, -2.0])
samples = []
for i in range(80):
    logp = -0.5 * ((data - theta) ** 2).sum() - 0.5 * (theta ** 2).sum()
    (g,) = torch.autograd.grad(logp, theta)
    with torch.no_grad():
        theta += 0.001 * g + (2 * 0.001) ** 0.5 * torch.randn(2)
    samples.append(theta.detach().clone())
print(torch.stack(samples)[40:].mean(0))
