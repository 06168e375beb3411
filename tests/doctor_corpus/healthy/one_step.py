import torch
import torch.nn as nn

torch.manual_seed(27)
model = nn.Sequential(nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.rand(32, 784)
y = torch.randint(0, 10, (32,))
loss = nn.CrossEntropyLoss()(model(x), y)
optimizer.zero_grad()
loss.backward()
optimizer.step()
with torch.no_grad():
    print(loss.item(), "->", nn.functional.cross_entropy(model(x), y).item())
