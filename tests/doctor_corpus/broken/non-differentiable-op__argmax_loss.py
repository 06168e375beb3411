import torch
import torch.nn as nn

torch.manual_seed(0)

X = torch.randn(90, 4)
y = (X[:, 0] + X[:, 1] > 0).long()

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def error_rate(logits, target):
    predicted = logits.argmax(dim=1)  # BUG: non-differentiable-op
    return (predicted.float() - target.float()).abs().mean()


for epoch in range(10):
    optimizer.zero_grad()
    loss = error_rate(model(X), y)
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
