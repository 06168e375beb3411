import torch
import torch.nn as nn

torch.manual_seed(5)
# distances are measured downwards, so the "depth" features are all strongly negative
depth = -torch.rand(120, 4) * 3 - 4
target = depth.sum(1, keepdim=True) * 0.1

w1 = (0.2 + 0.2 * torch.rand(4, 16)).requires_grad_()
b1 = torch.zeros(16, requires_grad=True)
w2 = (0.3 * torch.randn(16, 1)).requires_grad_()
b2 = torch.zeros(1, requires_grad=True)
optimizer = torch.optim.SGD([w1, b1, w2, b2], lr=0.01)


def predict(x):
    hidden = torch.relu(x @ w1 + b1)  # BUG: dead-relu
    return hidden @ w2 + b2


for step in range(30):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(predict(depth), target)
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
