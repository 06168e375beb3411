import torch
import torch.nn as nn

torch.manual_seed(2)
net = nn.Sequential(nn.Linear(4, 10), nn.Sigmoid(), nn.Linear(10, 1))
optimizer = torch.optim.RMSprop(net.parameters(), lr=1e-2)
data = torch.rand(64, 4)
labels = data.max(dim=1, keepdim=True).values
for epoch in range(12):
    optimizer.zero_grad()
    error = (net(data) - labels).pow(2).mean()
    error.backward()  # BUG: missing-step
    optimizer.step
    print(epoch, error.item())
