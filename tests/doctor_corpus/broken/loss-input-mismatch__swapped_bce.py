import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(3)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))

    def forward(self, x):
        return torch.sigmoid(self.body(x))


net = Tagger()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(50, 6)
tags = (x[:, :3] > 0).float()
for it in range(15):
    opt.zero_grad()
    predicted = net(x)
    loss = F.binary_cross_entropy(tags, predicted)  # BUG: loss-input-mismatch
    loss.backward()
    opt.step()
    print(it, loss.item())
