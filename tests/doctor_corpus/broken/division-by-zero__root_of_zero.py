import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Linear(4, 3)
nn.init.zeros_(net.bias)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(20, 4)
x[3] = 0
t = torch.randn(20, 3)
for i in range(4):
    z = net(x)
    unit = z / torch.sqrt((z * z).sum(1, keepdim=True))  # BUG: division-by-zero
    loss = (unit * t).sum(1).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
