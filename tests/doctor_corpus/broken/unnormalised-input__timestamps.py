import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def build_dataset():
    torch.manual_seed(1)
    t = 1.6e9 + torch.arange(100.0) * 3600
    temperature = 20 + 5 * torch.randn(100)
    x = torch.stack([t, temperature], dim=1)
    y = (temperature > 20).float()
    return TensorDataset(x, y)


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(2, 16)
        self.l2 = nn.Linear(16, 1)

    def forward(self, x):
        return self.l2(torch.relu(self.l1(x))).squeeze(-1)


net = Forecaster()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
loader = DataLoader(build_dataset(), batch_size=25, shuffle=True)
for epoch in range(5):
    for x, y in loader:
        logits = net(x)  # BUG: unnormalised-input
        loss = nn.functional.binary_cross_entropy_with_logits(logits, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
