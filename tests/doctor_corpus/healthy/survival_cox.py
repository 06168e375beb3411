import torch
from torch import nn

torch.manual_seed(218)
n = 100
x = torch.randn(n, 5)
risk = x[:, 0] - 0.5 * x[:, 1]
time = -torch.log(torch.rand(n)) / torch.exp(risk)
event = (torch.rand(n) > 0.3).float()
order = torch.argsort(time, descending=True)
x, event = x[order], event[order]


def cox_loss(h, event):
    log_cum = torch.logcumsumexp(h, dim=0)
    return -((h - log_cum) * event).sum() / event.sum()


net = nn.Sequential(nn.Linear(5, 16), nn.SELU(), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for epoch in range(40):
    loss = cox_loss(net(x).squeeze(-1), event)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
