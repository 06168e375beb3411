import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(4, 12)
        self.fc2 = nn.Linear(12, 12)
        self.fc3 = nn.Linear(12, 3)

    def forward(self, x):
        return self.fc3(torch.tanh(self.fc2(torch.tanh(self.fc1(x)))))


def weights_init(m):
    classname = m.__class__.__name__
    if classname.find("Linear") != -1:
        m.weight.data.fill_(0.1)  # BUG: zero-initialised
        m.bias.data.fill_(0.0)


torch.manual_seed(149)
net = Net()
net.apply(weights_init)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(90, 4)
y = x[:, :3].argmax(1)
for epoch in range(20):
    loss = F.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
