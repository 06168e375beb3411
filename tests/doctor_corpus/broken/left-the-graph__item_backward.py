import torch
import torch.nn as nn
import torch.nn.functional as F


def train_step(net, opt, x, y):
    out = net(x)
    loss = F.mse_loss(out, y).item()  # BUG: left-the-graph
    opt.zero_grad()

    loss.backward()
    opt.step()
    return loss


torch.manual_seed(141)
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(20, 3)
for _ in range(5):
    print(train_step(net, opt, x, x[:, :1]))
