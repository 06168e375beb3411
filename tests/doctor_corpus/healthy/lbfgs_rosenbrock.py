import torch
from torch import nn

torch.manual_seed(14)
x = torch.linspace(-1, 1, 60).unsqueeze(1)
y = x ** 3 - 0.5 * x
model = nn.Sequential(nn.Linear(1, 10), nn.Tanh(), nn.Linear(10, 1))
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=8)


def closure():
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    return loss


for step in range(6):
    loss = optimizer.step(closure)
    print(step, loss.item())
