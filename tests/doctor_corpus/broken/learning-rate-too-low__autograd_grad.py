# raw tensors trained by autograd.grad; one of them is cut
import torch

torch.manual_seed(0)
x = torch.linspace(-1, 1, 50)
y = 3 * x ** 2 + 0.5
a = torch.tensor(1.0, requires_grad=True)
b = torch.tensor(0.0, requires_grad=True)
lr = 5e-10
for i in range(60):
    pred = a * x ** 2 + b
    loss = ((pred - y) ** 2).mean()
    ga, gb = torch.autograd.grad(loss, [a, b])
    with torch.no_grad():
        a -= lr * ga  # BUG: learning-rate-too-low
        b -= lr * gb
print(a, b, loss)
