import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(147)


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.fc = nn.Linear(d, d)
        nn.init.constant_(self.norm.bias, -8.0)

    def forward(self, x):
        return self.fc(torch.relu(self.norm(x)))  # BUG: dead-relu


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(6, 24)
        self.block = Block(24)
        self.out = nn.Linear(24, 2)

    def forward(self, x):
        return self.out(self.block(self.inp(x)))


net = Net()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
x = torch.randn(64, 6)
y = (x[:, 0] > 0).long()
for epoch in range(15):
    opt.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
print(loss.item())
