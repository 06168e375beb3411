import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(91)


def kl(p, q):
    return (p * (p.log() - q.log())).sum(-1).mean()  # BUG: log-of-zero


net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 3))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(60, 5)
labels = x[:, :3].argmax(1)
target = F.one_hot(labels, 3).float()
for epoch in range(10):
    q = net(x).softmax(-1)
    loss = kl(target, q)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(epoch, loss.item())
