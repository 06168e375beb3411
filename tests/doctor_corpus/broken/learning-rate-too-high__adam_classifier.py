import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class ConvClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(1, 8, 3, padding=1)
        self.c2 = nn.Conv2d(8, 16, 3, padding=1)
        self.fc = nn.Linear(16, 3)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.c1(x)), 2)
        x = F.relu(self.c2(x)).mean((2, 3))
        return self.fc(x)


class Runner:
    def __init__(self, lr):
        torch.manual_seed(1)
        self.net = ConvClassifier()
        self.optim = torch.optim.Adam(self.net.parameters(), lr=lr)  # BUG: learning-rate-too-high

    def epoch(self, loader):
        for x, y in loader:
            self.optim.zero_grad()
            loss = F.cross_entropy(self.net(x), y)
            loss.backward()
            self.optim.step()
        return loss.item()


runner = Runner(lr=2.0)
labels = torch.randint(0, 3, (48,))
images = torch.randn(48, 1, 8, 8) * 0.3 + labels.view(-1, 1, 1, 1) * 0.5
loader = DataLoader(TensorDataset(images, labels), batch_size=12, shuffle=True)
for e in range(6):
    print(e, runner.epoch(loader))
