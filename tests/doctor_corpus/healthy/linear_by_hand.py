import torch

torch.manual_seed(20)
x = torch.randn(100, 2)
y = x @ torch.tensor([2.0, -3.4]) + 4.2 + 0.01 * torch.randn(100)
w = torch.normal(0, 0.01, size=(2, 1), requires_grad=True)
b = torch.zeros(1, requires_grad=True)


def data_iter(batch_size):
    order = torch.randperm(100)
    for i in range(0, 100, batch_size):
        idx = order[i:i + batch_size]
        yield x[idx], y[idx]


def sgd(params, lr):
    with torch.no_grad():
        for param in params:
            param -= lr * param.grad
            param.grad.zero_()


for epoch in range(5):
    for xb, yb in data_iter(10):
        loss = ((torch.matmul(xb, w) + b - yb.reshape(-1, 1)) ** 2 / 2).mean()
        loss.backward()
        sgd([w, b], 0.1)
    with torch.no_grad():
        train_l = ((x @ w + b).squeeze(1) - y).pow(2).mean()
        print(epoch, float(train_l))
