import torch
from torch import nn

torch.manual_seed(0)
t = torch.linspace(0, 1, 60).unsqueeze(1)
y = torch.sin(6 * t)
model = nn.Sequential(nn.Linear(1, 12), nn.Tanh(), nn.Linear(12, 1))
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=8)
criterion = nn.MSELoss()


def closure():
    loss = criterion(model(t), y)
    loss.backward()  # BUG: missing-zero-grad
    return loss


for epoch in range(12):
    loss = optimizer.step(closure)
    print(epoch, loss.item())
