import torch
import torch.nn as nn

torch.manual_seed(1)
model = nn.Sequential(nn.Linear(14, 28), nn.ReLU(), nn.Linear(28, 28), nn.ReLU(), nn.Linear(28, 1))
params = model.parameters()
print("number of parameters:", sum(p.numel() for p in params))
opt = torch.optim.Adam([{"params": params}, {"params": [torch.zeros(1, requires_grad=True)]}], lr=1e-3)  # BUG: not-in-optimizer
x = torch.randn(64, 14)
y = x.prod(1, keepdim=True).tanh()
for i in range(15):
    opt.zero_grad()
    loss = nn.MSELoss()(model(x), y)
    loss.backward()
    opt.step()
    print(i, loss.item())
