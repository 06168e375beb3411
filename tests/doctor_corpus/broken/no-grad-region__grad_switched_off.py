import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(6)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(8, 32)
        self.fc2 = nn.Linear(32, 1)

    def forward(self, x):
        h = self.fc1(x)  # BUG: no-grad-region
        h = F.relu(h)
        return self.fc2(h).squeeze(-1)


def validate(model, x, y):
    model.eval()
    torch.set_grad_enabled(False)
    mse = F.mse_loss(model(x), y).item()
    model.train()
    return mse


x, y = torch.randn(128, 8), torch.randn(128)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
for epoch in range(4):
    for i in range(0, 96, 32):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x[i:i + 32]), y[i:i + 32])
        loss.backward()
        optimizer.step()
    print(epoch, validate(model, x[96:], y[96:]))
