import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(144)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(8, 24), nn.ReLU())
        self.head = nn.Linear(24, 3)
        for p in self.features.parameters():
            p.requires_grad = False

    def unfreeze(self):
        for p in self.features.parameters():
            p.requires_grad = True

    def forward(self, x):
        return self.head(self.features(x))


net = Net()
optimizer = torch.optim.Adam(filter(lambda p: p.requires_grad, net.parameters()), lr=1e-2)  # BUG: not-in-optimizer
net.unfreeze()
x = torch.randn(60, 8)
y = x[:, :3].argmax(1)
for epoch in range(15):
    loss = F.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
