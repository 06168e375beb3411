import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(65)


class Embed(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(1, 8, 5, stride=2)
        self.fc = nn.Linear(8 * 14, 8)

    def forward(self, x):
        return F.normalize(self.fc(torch.relu(self.conv(x)).flatten(1)), dim=1)


net = Embed()
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
proto = torch.randn(5, 1, 32)
for step in range(30):
    c = torch.randint(0, 5, (24,))
    other = (c + torch.randint(1, 5, (24,))) % 5
    a = proto[c] + 1.5 * torch.randn(24, 1, 32)
    p = proto[c] + 1.5 * torch.randn(24, 1, 32)
    n = proto[other] + 1.5 * torch.randn(24, 1, 32)
    loss = F.triplet_margin_loss(net(a), net(p), net(n), margin=1.0)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
