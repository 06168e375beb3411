import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(227)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(5, 16)
        self.fc2 = nn.Linear(16, 3)
        self.gate = nn.Linear(5, 16)  # BUG: unused-parameter

    def forward(self, x):
        return F.relu(self.fc2(torch.relu(self.fc1(x))))


net = Net()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(8):
    x = torch.rand(20, 5)
    score = net(x)
    p = score / (score.sum(1, keepdim=True) + 1e-6)
    loss = -torch.log(p[:, 0]).mean()  # BUG: log-of-zero
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
