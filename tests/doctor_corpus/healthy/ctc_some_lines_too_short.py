import torch
from torch import nn
import torch.nn.functional as F
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 5))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
crit = nn.CTCLoss(zero_infinity=True)
texts = torch.randint(1, 5, (10, 4))
lens = torch.randint(1, 5, (10,))
frames = torch.full((10,), 8)
frames[2] = 2
lens[2] = 4
x = torch.randn(8, 10, 6)
for it in range(40):
    loss = crit(net(x).log_softmax(2), texts, frames, lens)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if it % 10 == 0: print(loss.item())
