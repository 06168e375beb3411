import torch
from torch import nn

torch.manual_seed(23)
layers = [nn.Linear(10, 32), nn.Sigmoid()]
for _ in range(11):
    layers += [nn.Linear(32, 32), nn.Sigmoid()]
layers.append(nn.Linear(32, 1))
model = nn.Sequential(*layers)

optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
criterion = nn.MSELoss()
x = torch.randn(96, 10)
y = x[:, :1].sin()
for epoch in range(8):
    for i in range(0, 96, 32):
        optimizer.zero_grad()
        out = model(x[i:i + 32])  # BUG: vanishing-gradient
        loss = criterion(out, y[i:i + 32])
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
