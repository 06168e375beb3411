import torch

# fit band limit of a sinc, float64
torch.manual_seed(0)
t = torch.linspace(-3, 3, 61, dtype=torch.float64)
t[30] = 0.0
data = torch.where(t == 0, torch.ones_like(t), torch.sin(2.5 * t) / (2.5 * t).where(t != 0, torch.ones_like(t)))
k = torch.tensor(1.7, dtype=torch.float64, requires_grad=True)
opt = torch.optim.SGD([k], lr=0.1)
for i in range(10):
    arg = k * t
    model = torch.where(arg == 0, torch.ones_like(arg), torch.sin(arg) / arg)  # BUG: nan-in-unselected-branch
    loss = ((model - data) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(i, k.item(), loss.item())
