import torch
import torch.nn as nn


class MinMax(nn.Module):
    def forward(self, x):
        lo, hi = x.min(dim=1, keepdim=True).values, x.max(dim=1, keepdim=True).values
        return (x - lo) / (hi - lo)  # BUG: division-by-zero


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(5, 12), nn.ReLU(), MinMax(), nn.Linear(12, 1))
nn.init.constant_(net[0].bias, -0.2)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
x = torch.randn(40, 5)
x[7] = 0
y = torch.randn(40, 1)
for i in range(4):
    loss = nn.functional.mse_loss(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(i, loss.item())
