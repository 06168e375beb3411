import torch
import torch.nn as nn

torch.manual_seed(0)


def init_weights(module):
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.weight)  # BUG: zero-initialised
        nn.init.zeros_(module.bias)


model = nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, 20), nn.ReLU(), nn.Linear(20, 2))
model.apply(init_weights)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()

x = torch.randn(100, 6)
y = (x[:, 0] * x[:, 1] > 0).long()
for epoch in range(15):
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
