import torch
import torch.nn.functional as F
from torch import nn


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.value, self.gate, self.out = nn.Linear(6, 16), nn.Linear(6, 16), nn.Linear(16, 1)

    def forward(self, x):
        gate = 1 / (1 + torch.exp(-self.gate(x)))
        return self.out(torch.tanh(self.value(x)) * gate)


torch.manual_seed(0)
net = Gated()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(60):
    x = torch.randn(48, 6)
    loss = F.binary_cross_entropy_with_logits(net(x), (x[:, :1] > 0).float())
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
