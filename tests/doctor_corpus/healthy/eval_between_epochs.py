import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 8, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(8)
        self.drop = nn.Dropout(0.25)
        self.fc = nn.Linear(8 * 4 * 4, 3)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        x = F.max_pool2d(F.relu(self.bn2(self.conv2(x)), inplace=True), 2)
        return self.fc(self.drop(x.flatten(1)))


def evaluate(model, loader):
    model.eval()
    hits = total = 0
    with torch.no_grad():
        for x, y in loader:
            hits += (model(x).argmax(1) == y).sum().item()
            total += len(y)
    model.train()
    return hits / total


def main():
    torch.manual_seed(8)
    y = torch.randint(0, 3, (96,))
    x = torch.randn(96, 1, 8, 8) * 0.5 + y.float().view(-1, 1, 1, 1)
    train, test = random_split(TensorDataset(x, y), [72, 24])
    model = Net()
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    for epoch in range(5):
        for xb, yb in DataLoader(train, batch_size=24, shuffle=True):
            opt.zero_grad()
            loss = F.cross_entropy(model(xb), yb)
            loss.backward()
            opt.step()
        print(epoch, loss.item(), evaluate(model, DataLoader(test, batch_size=24)))


main()
