import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(210)
# mostly noise: the loss hardly falls, and that is how it should be
x = torch.randn(400, 10)
y = ((x[:, 0] + 4 * torch.randn(400)) > 0).long()
net = nn.Sequential(nn.Linear(10, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2))
opt = torch.optim.Adam(net.parameters(), lr=1e-3, weight_decay=1e-3)
for epoch in range(5):
    for a, b in zip(x.split(50), y.split(50)):
        opt.zero_grad()
        loss = F.cross_entropy(net(a), b)
        loss.backward()
        opt.step()
    print(epoch, loss.item())
