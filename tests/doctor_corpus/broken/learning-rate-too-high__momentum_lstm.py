import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(25)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(2, 16, batch_first=True)
        self.fc = nn.Linear(16, 1)

    def forward(self, x):
        return self.fc(self.lstm(x)[0][:, -1])


def configure(model, lr=8.0):
    return torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)  # BUG: learning-rate-too-high


model = Net()
optimizer = configure(model)
for step in range(25):
    x = torch.randn(32, 8, 2)
    y = x[:, -1, :1] + x[:, -2, 1:]
    loss = F.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
