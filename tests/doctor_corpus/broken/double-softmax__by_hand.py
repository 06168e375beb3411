import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(9, 20)
        self.l2 = nn.Linear(20, 4)

    def forward(self, x):
        z = self.l2(torch.relu(self.l1(x)))
        e = torch.exp(z - z.max(1, keepdim=True).values)
        return e / e.sum(1, keepdim=True)  # BUG: double-softmax


torch.manual_seed(0)
net = Net()
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
x = torch.randn(80, 9)
y = x[:, :4].argmax(1)
for i in range(15):
    loss = nn.CrossEntropyLoss()(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
