import torch

torch.manual_seed(2)
# logistic regression without an optimizer object
w = torch.randn(4, requires_grad=True)
b = torch.zeros((), requires_grad=True)
x = torch.randn(80, 4)
y = (x[:, 0] > x[:, 1]).float()

for it in range(60):
    logits = x @ w + b
    loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, y)
    loss.backward()  # BUG: missing-zero-grad
    with torch.no_grad():
        w -= 0.5 * w.grad
        b -= 0.5 * b.grad
    if it % 10 == 0:
        print(it, loss.item())
