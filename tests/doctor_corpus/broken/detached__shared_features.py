import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(84)


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.block1 = nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.ReLU())
        self.block2 = nn.Sequential(nn.Conv2d(6, 6, 3, padding=1), nn.ReLU())
        self.cache = {}

    def forward(self, x):
        self.cache["low"] = self.block1(x).detach()  # BUG: detached
        return self.block2(self.cache["low"])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = Backbone()
        self.fc = nn.Linear(6, 3)

    def forward(self, x):
        return self.fc(self.backbone(x).mean((2, 3)))


net = Net()
opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
for it in range(15):
    y = torch.randint(0, 3, (12,))
    x = torch.randn(12, 1, 6, 6) + y.view(-1, 1, 1, 1)
    loss = F.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
