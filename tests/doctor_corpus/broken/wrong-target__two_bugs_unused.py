import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(110)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(7, 20)
        self.fc2 = nn.Linear(20, 1)
        self.ln = nn.LayerNorm(20)  # BUG: unused-parameter

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x)))[:, 0]


net = Net()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(60, 7)
y = torch.randint(1, 3, (60,)).float()  # classes are called 1 and 2
for epoch in range(15):
    opt.zero_grad()
    loss = F.binary_cross_entropy_with_logits(net(x), y)  # BUG: wrong-target
    loss.backward()
    opt.step()
    print(epoch, loss.item())
