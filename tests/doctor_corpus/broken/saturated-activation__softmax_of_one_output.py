import torch
from torch import nn
import torch.nn.functional as F
torch.manual_seed(0)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(6, 16)
        self.fc2 = nn.Linear(16, 1)
        self.softmax = nn.Softmax(dim=1)
    def forward(self, x):
        return self.softmax(self.fc2(torch.relu(self.fc1(x))))  # BUG: saturated-activation
net = Net()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(64, 6)
y = (x[:, :1] > 0).float()
crit = nn.BCELoss()
for _ in range(30):
    loss = crit(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
