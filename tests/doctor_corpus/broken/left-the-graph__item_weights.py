import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(5)


class UncertaintyWeights(nn.Module):
    """Learned weights of two losses (Kendall et al.)."""

    def __init__(self):
        super().__init__()
        self.log_var = nn.Parameter(torch.zeros(2))

    def forward(self, losses):
        total = 0.0
        for loss, s in zip(losses, self.log_var):
            s = s.item()  # BUG: left-the-graph
            total = total + loss * 2.718 ** -s + s
        return total


net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
balance = UncertaintyWeights()
opt = torch.optim.Adam(list(net.parameters()) + list(balance.parameters()), lr=1e-2)
x = torch.randn(64, 4)
y, c = x.sum(1), (x[:, 0] > 0).long()
for step in range(20):
    out = net(x)
    loss = balance([F.mse_loss(out[:, 0], y), F.cross_entropy(out[:, 1:], c)])
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
