import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(222)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(4)  # BUG: unused-parameter
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(F.relu(self.conv1(x)).mean((2, 3)))


net = Net()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(12):
    y = torch.randint(0, 2, (8,))
    x = torch.randn(8, 1, 6, 6) + y.view(-1, 1, 1, 1)
    opt.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()  # BUG: missing-step
print(loss.item())
