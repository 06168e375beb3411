import torch
from torch import nn

torch.manual_seed(103)


class Energy(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(6, 10)
        self.out = nn.Linear(10, 1)

    def forward(self, x):
        h = self.lin(x)
        energy = h.pow(2)  # BUG: modified-in-place
        gate = torch.ones_like(h)
        h.relu_()  # BUG: modified-in-place
        return self.out(energy * gate + h)


net = Energy()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for i in range(4):
    x = torch.randn(8, 6)
    loss = (net(x) - x.sum(1, keepdim=True)).abs().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(i, loss.item())
