import torch

torch.manual_seed(173)
n, d = 120, 4
X = torch.randn(n, d) * 2
t = X @ torch.randn(d) + 0.5
params = {"w": torch.randn(d, requires_grad=True), "b": torch.zeros((), requires_grad=True)}
learning_rate = 0.6


def loss_fn(p):
    return ((X @ p["w"] + p["b"] - t) ** 2).mean()


for epoch in range(30):
    loss = loss_fn(params)
    loss.backward()
    with torch.no_grad():
        for p in params.values():
            p -= learning_rate * p.grad  # BUG: learning-rate-too-high
            p.grad.zero_()
    print(epoch, loss.item())
