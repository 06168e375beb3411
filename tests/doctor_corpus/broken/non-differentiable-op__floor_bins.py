import torch
from torch import nn

torch.manual_seed(143)


class SoftHistogram(nn.Module):
    def __init__(self, bins=8):
        super().__init__()
        self.bins = bins
        self.embed = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1), nn.Sigmoid())
        self.readout = nn.Linear(bins, 1)

    def forward(self, sets):
        v = self.embed(sets).squeeze(-1)
        b = torch.floor(v * self.bins)  # BUG: non-differentiable-op
        grid = torch.arange(self.bins).float()
        hist = torch.exp(-(b.unsqueeze(-1) - grid) ** 2).mean(1)
        return self.readout(hist).squeeze(-1)


net = SoftHistogram()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(15):
    sets = torch.randn(16, 10, 4)
    loss = (net(sets) - sets.mean((1, 2))).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
