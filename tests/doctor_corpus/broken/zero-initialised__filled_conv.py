import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(15)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(1, 6, 3, padding=1)
        self.c2 = nn.Conv2d(6, 6, 3, padding=1)
        self.fc = nn.Linear(6, 3)
        self.init()

    def init(self):
        for p in self.parameters():
            p.data.fill_(0.0)  # BUG: zero-initialised

    def forward(self, x):
        x = F.relu(self.c1(x))
        x = F.relu(self.c2(x))
        return self.fc(x.mean((2, 3)))


net = Net()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(15):
    y = torch.randint(0, 3, (12,))
    x = torch.randn(12, 1, 6, 6) + y.view(-1, 1, 1, 1)
    loss = F.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
