import torch
from torch import nn

torch.manual_seed(224)
net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
opt = torch.optim.AdamW(net.parameters(), lr=1e-10, weight_decay=0.0)  # BUG: learning-rate-too-low
x = torch.randn(60, 4)
y = x.sum(1)
for epoch in range(30):
    diff = net(x) - y  # BUG: suspicious-broadcast
    loss = diff.abs().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
