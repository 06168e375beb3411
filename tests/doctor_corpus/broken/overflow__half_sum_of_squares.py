import torch
from torch import nn

torch.manual_seed(2)


class EnergyNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(32, 64)
        self.out = nn.Linear(64, 1)

    def forward(self, x):
        h = self.layer(x).half()
        energy = (h ** 2).sum(dim=1, keepdim=True)  # BUG: overflow
        h = h / (energy + 1).sqrt()
        return self.out(h.float()) + 0.001 * energy.float()


net = EnergyNet()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
x = torch.randn(40, 32) * 80
y = torch.randn(40, 1)
for step in range(8):
    loss = nn.functional.mse_loss(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
