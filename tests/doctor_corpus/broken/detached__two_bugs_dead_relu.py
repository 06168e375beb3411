import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(226)


class TwoBranch(nn.Module):
    def __init__(self):
        super().__init__()
        self.left = nn.Linear(5, 12)
        self.right = nn.Linear(5, 12)
        self.out = nn.Linear(24, 1)
        nn.init.constant_(self.right.bias, -15.0)

    def forward(self, x):
        a = torch.tanh(self.left(x)).detach()  # BUG: detached

        b = F.relu(self.right(x))  # BUG: dead-relu
        return self.out(torch.cat([a, b], 1))


net = TwoBranch()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(60, 5)
y = x.sum(1, keepdim=True)
for epoch in range(20):
    loss = F.mse_loss(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
