import torch
import torch.nn as nn

torch.manual_seed(0)


class Gaussian(nn.Module):
    def __init__(self):
        super().__init__()
        self.mu = nn.Linear(3, 1)
        self.ls = nn.Linear(3, 1)

    def forward(self, x):
        return self.mu(x), self.ls(x).clip(-8.0, -5.0)  # BUG: clamped


net = Gaussian()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(64, 3)
y = x[:, :1] + 0.5 * torch.randn(64, 1)
for i in range(20):
    mu, ls = net(x)
    loss = (0.5 * ((y - mu) / ls.exp()) ** 2 * 1e-4 + ls).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
