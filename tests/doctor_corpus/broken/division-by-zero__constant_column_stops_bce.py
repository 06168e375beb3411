import torch
from torch import nn

torch.manual_seed(8)
sensors = torch.rand(50, 6)
sensors[:, 3] = 0.25  # a sensor that was never plugged in
alarms = (sensors[:, :1] > 0.5).float()
sensors = (sensors - sensors.mean(0)) / sensors.std(0)  # BUG: division-by-zero

net = nn.Linear(6, 1)
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for epoch in range(10):
    optimizer.zero_grad()
    risk = torch.sigmoid(net(sensors))
    nn.functional.binary_cross_entropy(risk, alarms).backward()
    optimizer.step()
