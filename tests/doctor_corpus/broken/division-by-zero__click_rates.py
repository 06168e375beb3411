import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def build():
    g = torch.Generator().manual_seed(190)
    clicks = torch.randint(0, 5, (60, 4), generator=g).float()
    views = clicks + torch.randint(0, 3, (60, 4), generator=g)
    rates = clicks / views  # BUG: division-by-zero
    label = (clicks.sum(1) > 8).long()
    return TensorDataset(rates, label)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))

    def forward(self, x):
        return self.layers(x)


torch.manual_seed(190)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(3):
    for rates, label in DataLoader(build(), batch_size=12):
        logits = net(rates)
        loss = F.cross_entropy(logits, label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
