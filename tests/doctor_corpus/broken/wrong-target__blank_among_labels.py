import torch
from torch import nn
import torch.nn.functional as F
torch.manual_seed(0)
net = nn.Linear(6, 5)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
texts = torch.randint(0, 5, (8, 4))
x = torch.randn(12, 8, 6)
for _ in range(10):
    lp = net(x).log_softmax(-1)
    loss = F.ctc_loss(lp, texts, torch.full((8,), 12), torch.full((8,), 4))  # BUG: wrong-target
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
