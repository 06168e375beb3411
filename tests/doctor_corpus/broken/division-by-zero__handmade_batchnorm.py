import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(177)


class Standardise(nn.Module):
    def forward(self, x):
        mean = x.mean(0, keepdim=True)
        var = ((x - mean) ** 2).mean(0, keepdim=True)
        return (x - mean) / var.sqrt()  # BUG: division-by-zero


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = Standardise()
        self.a = nn.Linear(5, 16)
        self.b = nn.Linear(16, 1)

    def forward(self, x):
        return self.b(F.relu(self.a(self.norm(x))))


x = torch.randn(60, 5)
x[:, 4] = 3.0  # everybody ticked the same box
y = x[:, :1]
net = Net()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for epoch in range(6):
    loss = F.mse_loss(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(epoch, loss.item())
