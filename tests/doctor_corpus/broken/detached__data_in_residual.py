import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(182)


class ResNet(nn.Module):
    def __init__(self, d=12):
        super().__init__()
        self.stem = nn.Linear(6, d)
        self.blocks = nn.ModuleList(nn.Linear(d, d) for _ in range(3))
        self.head = nn.Linear(d, 2)

    def forward(self, x):
        h = self.stem(x)
        out = torch.zeros_like(h)
        for block in self.blocks:
            out = out + torch.tanh(block(h.data))  # BUG: detached
        return self.head(out)


net = ResNet()
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
x = torch.randn(64, 6)
y = (x[:, 0] > 0).long()
for epoch in range(12):
    opt.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
print(loss.item())
