import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class SparseNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(10, 32)
        self.fc2 = nn.Linear(32, 3)
        nn.init.constant_(self.fc1.bias, -12.0)

    def forward(self, x):
        h = F.relu(self.fc1(x))  # BUG: dead-relu
        return self.fc2(h)


x = torch.randn(96, 10)
y = x[:, :3].argmax(dim=1)
model = SparseNet()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(8):
    for xb, yb in zip(x.split(24), y.split(24)):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(xb), yb)
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
