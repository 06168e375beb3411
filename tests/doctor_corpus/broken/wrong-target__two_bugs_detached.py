import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(223)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(7, 16)
        self.dec = nn.Linear(16, 1)

    def forward(self, x):
        z = torch.tanh(self.enc(x)).detach()  # BUG: detached
        return self.dec(z).squeeze(1)


net = Net()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(64, 7)
y = torch.where(x[:, 0] > 0, 1.0, -1.0)
for epoch in range(15):
    opt.zero_grad()
    loss = F.binary_cross_entropy_with_logits(net(x), y)  # BUG: wrong-target
    loss.backward()
    opt.step()
print(loss.item())
