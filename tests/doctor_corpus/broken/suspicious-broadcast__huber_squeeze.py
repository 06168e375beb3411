import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Toy(Dataset):
    def __init__(self):
        g = torch.Generator().manual_seed(33)
        self.x = torch.randn(96, 5, generator=g)

    def __len__(self):
        return 96

    def __getitem__(self, i):
        return self.x[i], self.x[i, :1] * 2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(5, 16)
        self.b = nn.Linear(16, 1)

    def forward(self, x):
        return self.b(torch.relu(self.a(x))).squeeze()


torch.manual_seed(33)
net = Net()
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
for epoch in range(5):
    for x, y in DataLoader(Toy(), batch_size=24, shuffle=True):
        error = net(x) - y  # BUG: suspicious-broadcast
        loss = error.abs().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
