import torch
from torch import nn
import torch.nn.functional as F
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
data = torch.randn(33, 6)
for _ in range(2):
    for x in data.split(16):
        out = net(x)  # BUG: division-by-zero
        loss = F.mse_loss(out, x[:, :1])
        opt.zero_grad()
        loss.backward()
        opt.step()
