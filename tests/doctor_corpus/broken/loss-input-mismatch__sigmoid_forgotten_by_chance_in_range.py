import torch
from torch import nn

torch.manual_seed(3)
x = torch.rand(60, 4)
y = (x[:, :1] > 0.5).float()
model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 1))
nn.init.constant_(model[2].bias, 0.5)
model[2].weight.data.mul_(0.1)  # small weights: the scores begin near 0.5, and no loss refuses them
criterion = nn.BCELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for epoch in range(15):
    loss = criterion(model(x), y)  # BUG: loss-input-mismatch
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
