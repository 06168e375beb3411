import torch
from torch import nn

torch.manual_seed(1)


def bce(p, y):
    return -(y * torch.log(p) + (1 - y) * torch.log(1 - p)).mean()  # BUG: log-of-zero


w = torch.zeros(3, requires_grad=True)
b = torch.zeros(1, requires_grad=True)
x = torch.randn(60, 3) * torch.tensor([1.0, 1.0, 15.0])
y = (x[:, 2] > 0).float()
lr = 1.0
for epoch in range(40):
    p = torch.sigmoid(x @ w + b)
    loss = bce(p, y)
    loss.backward()
    with torch.no_grad():
        for param in (w, b):
            param -= lr * param.grad
            param.grad = None
    print(epoch, loss.item())
