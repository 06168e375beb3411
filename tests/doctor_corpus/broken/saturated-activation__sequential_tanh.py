import torch
from torch import nn

torch.manual_seed(88)
net = nn.Sequential(nn.Linear(6, 30), nn.Tanh(), nn.Linear(30, 1))
with torch.no_grad():
    net[0].weight.normal_(0, 20)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
x = torch.randn(80, 6)
y = (x[:, :1] * x[:, 1:2])
for epoch in range(20):
    opt.zero_grad()
    output = net(x)  # BUG: saturated-activation
    loss = nn.functional.mse_loss(output, y)
    loss.backward()
    opt.step()
    print(epoch, loss.item())
