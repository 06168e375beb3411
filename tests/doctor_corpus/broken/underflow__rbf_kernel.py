import torch
from torch import nn

torch.manual_seed(1)


class RBFNet(nn.Module):
    def __init__(self, dim, centers, gamma=500.0):
        super().__init__()
        self.centers = nn.Parameter(torch.randn(centers, dim))
        self.gamma = gamma
        self.readout = nn.Linear(centers, 1)

    def forward(self, x):
        diff = x[:, None, :] - self.centers[None, :, :]
        d2 = diff.pow(2).sum(-1)
        phi = torch.exp(-self.gamma * d2)  # BUG: underflow
        return self.readout(phi)


net = RBFNet(dim=6, centers=10)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(64, 6)
y = x.norm(dim=1, keepdim=True)
for it in range(25):
    loss = (net(x) - y).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
