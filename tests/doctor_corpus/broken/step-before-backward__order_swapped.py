import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(230)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(6, 16)
        self.fc2 = nn.Linear(16, 2)

    def forward(self, x):
        return self.fc2(F.relu(self.fc1(x)))


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
x = torch.randn(90, 6)
y = (x[:, 0] > 0).long()
for epoch in range(4):
    for a, b in zip(x.split(30), y.split(30)):
        loss = F.cross_entropy(net(a), b)
        optimizer.step()  # BUG: step-before-backward
        loss.backward()
    print(epoch, loss.item())
