import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(220)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(6, 24)
        self.b = nn.Linear(24, 3)

    def forward(self, x):
        return F.softmax(self.b(F.relu(self.a(x))), dim=1)  # BUG: double-softmax


net = Net()
opt = torch.optim.Adam(net.parameters(), lr=1e-9)  # BUG: learning-rate-too-low
x = torch.randn(90, 6)
y = x[:, :3].argmax(1)
for epoch in range(10):
    for a, b in zip(x.split(30), y.split(30)):
        opt.zero_grad()
        loss = F.cross_entropy(net(a), b)
        loss.backward()
        opt.step()
    print(epoch, loss.item())
