import torch
from torch import nn

torch.manual_seed(198)


class Quantile(nn.Module):
    def __init__(self, tau):
        super().__init__()
        self.tau = tau

    def forward(self, pred, target):
        e = target - pred  # BUG: suspicious-broadcast
        return torch.max(self.tau * e, (self.tau - 1) * e).mean()


net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
crit = Quantile(0.9)
x = torch.randn(70, 4)
y = x[:, 0] * 2
for epoch in range(15):
    loss = crit(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
