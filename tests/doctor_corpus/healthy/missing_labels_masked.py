import torch
import torch.nn as nn

torch.manual_seed(0)
y = torch.randn(100, 1)
y[::7] = float("nan")  # missing labels
x = torch.randn(100, 4)
net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for i in range(20):
    pred = net(x)
    ok = ~torch.isnan(y)
    loss = ((pred[ok] - y[ok]) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
