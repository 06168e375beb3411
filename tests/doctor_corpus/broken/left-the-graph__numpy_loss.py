import numpy as np
import torch
from torch import nn

torch.manual_seed(81)


def rmse(a, b):
    return np.sqrt(np.mean((a - b) ** 2))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Sequential(nn.Linear(3, 12), nn.Tanh(), nn.Linear(12, 1))

    def forward(self, x):
        return self.fc(x)


model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.randn(64, 3)
y = x.sum(1, keepdim=True)
for epoch in range(10):
    optimizer.zero_grad()
    prediction = model(x).detach().numpy()  # BUG: left-the-graph
    loss = torch.tensor(rmse(prediction, y.numpy()), requires_grad=True)
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
