import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(201)


class TripTime(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(3, 32)
        self.l2 = nn.Linear(32, 32)
        self.l3 = nn.Linear(32, 1)

    def forward(self, f):
        return self.l3(torch.tanh(self.l2(torch.tanh(self.l1(f)))))


distance = torch.rand(100) * 30000  # metres
hour = torch.randint(0, 24, (100,)).float()
speed = torch.rand(100) * 20 + 5
features = torch.stack([distance, hour, speed], 1)
minutes = (distance / speed / 60).unsqueeze(1) / 10
net = TripTime()
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for epoch in range(20):
    prediction = net(features)  # BUG: unnormalised-input
    loss = F.mse_loss(prediction, minutes)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(epoch, loss.item())
