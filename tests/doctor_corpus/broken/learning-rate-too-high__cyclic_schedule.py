import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

torch.manual_seed(153)
net = nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.01)
warmup = LambdaLR(opt, lambda step: step + 1)  # BUG: learning-rate-too-high
x = torch.randn(128, 5)
y = x.sum(1, keepdim=True)
for step in range(300):
    loss = nn.functional.mse_loss(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    warmup.step()
    if step % 25 == 0:
        print(step, opt.param_groups[0]["lr"], loss.item())
