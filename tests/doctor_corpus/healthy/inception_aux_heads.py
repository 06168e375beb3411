import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(211)


class Inception(nn.Module):
    def __init__(self):
        super().__init__()
        self.b1 = nn.Conv2d(3, 4, 1)
        self.b3 = nn.Conv2d(3, 4, 3, padding=1)
        self.b5 = nn.Conv2d(3, 4, 5, padding=2)
        self.bn = nn.BatchNorm2d(12)
        self.aux = nn.Linear(12, 3)
        self.conv = nn.Conv2d(12, 12, 3, padding=1, groups=4)
        self.fc = nn.Linear(12, 3)

    def forward(self, x):
        h = F.relu(self.bn(torch.cat([self.b1(x), self.b3(x), self.b5(x)], 1)))
        aux = self.aux(F.adaptive_avg_pool2d(h, 1).flatten(1)) if self.training else None
        h = F.relu(self.conv(h))
        return self.fc(F.adaptive_avg_pool2d(h, 1).flatten(1)), aux


net = Inception()
opt = torch.optim.RMSprop(net.parameters(), lr=3e-3, alpha=0.9, eps=1e-3)
for step in range(15):
    y = torch.randint(0, 3, (12,))
    x = torch.randn(12, 3, 8, 8)
    x[torch.arange(12), y] += 1.0
    net.train()
    out, aux = net(x)
    loss = F.cross_entropy(out, y) + 0.3 * F.cross_entropy(aux, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 5 == 4:
        net.eval()
        with torch.no_grad():
            print(step, loss.item(), (net(x)[0].argmax(1) == y).float().mean().item())
