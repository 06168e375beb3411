import torch
from torch import nn

torch.manual_seed(47)


def safe_log(x):
    positive = x > 0
    inner = torch.where(positive, x, torch.ones_like(x))
    return torch.where(positive, torch.log(inner), torch.zeros_like(x))


def huber(e, delta=1.0):
    return torch.where(e.abs() < delta, 0.5 * e ** 2, delta * (e.abs() - 0.5 * delta)).mean()


class CountNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(4))
        self.out = nn.Linear(4, 1)

    def forward(self, counts):
        return self.out(safe_log(counts * self.gain)).squeeze(1)


counts = torch.poisson(torch.full((100, 4), 2.0))
y = (counts + 1).log().sum(1)
net = CountNet()
opt = torch.optim.Adam(net.parameters(), lr=3e-2)
for epoch in range(40):
    loss = huber(net(counts) - y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
