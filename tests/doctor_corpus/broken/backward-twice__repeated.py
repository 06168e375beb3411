import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(30)
net = nn.Sequential(nn.Linear(4, 12), nn.Sigmoid(), nn.Linear(12, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(32, 4)
y = x[:, :1]
out = net(x)
loss = F.mse_loss(out, y)
for epoch in range(10):
    opt.zero_grad()
    loss.backward()  # BUG: backward-twice
    opt.step()
    print(epoch, loss.item())
