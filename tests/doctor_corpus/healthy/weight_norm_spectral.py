import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

torch.manual_seed(131)
net = nn.Sequential(weight_norm(nn.Linear(5, 24)), nn.Softplus(), weight_norm(nn.Linear(24, 1)))
opt = torch.optim.NAdam(net.parameters(), lr=1e-2)
x = torch.randn(100, 5)
y = x.pow(2).sum(1, keepdim=True) / 5
for epoch in range(40):
    loss = nn.functional.mse_loss(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
