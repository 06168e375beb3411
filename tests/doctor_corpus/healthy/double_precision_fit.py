import torch

torch.set_default_dtype(torch.float64)
torch.manual_seed(73)
t = torch.linspace(0, 5, 80)
signal = 2.0 * torch.exp(-0.7 * t) * torch.cos(3.0 * t)
theta = torch.tensor([1.0, 0.3, 2.7], requires_grad=True)
opt = torch.optim.Adam([theta], lr=0.05)
for step in range(80):
    a, b, w = theta
    model = a * torch.exp(-b * t) * torch.cos(w * t)
    loss = (model - signal).square().sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(theta.tolist(), loss.item())
torch.set_default_dtype(torch.float32)
