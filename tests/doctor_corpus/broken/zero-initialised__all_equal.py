import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(188)


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1 = nn.Parameter(torch.ones(5, 16) * 0.2)  # BUG: zero-initialised
        self.b1 = nn.Parameter(torch.zeros(16))
        self.w2 = nn.Parameter(torch.ones(16, 1) * 0.2)
        self.b2 = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return torch.sigmoid(x @ self.w1 + self.b1) @ self.w2 + self.b2


net = Scorer()
opt = torch.optim.Adam(net.parameters(), lr=0.02)
x = torch.randn(100, 5)
y = (x[:, :1] * x[:, 1:2])
for step in range(40):
    loss = F.mse_loss(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
