import torch
import torch.nn as nn
import torch.nn.functional as F


class DropNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(10, 40)
        self.drop = nn.Dropout(0.5)
        self.fc2 = nn.Linear(40, 2)

    def forward(self, x):
        return self.fc2(self.drop(F.relu(self.fc1(x))))


def accuracy(model, x, y):
    model.eval()  # BUG: eval-mode-left-on
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()


def main():
    torch.manual_seed(0)
    x = torch.randn(150, 10)
    y = (x[:, 0] + 0.2 * torch.randn(150) > 0).long()
    model = DropNet()
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(6):
        for i in range(0, 100, 20):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x[i:i + 20]), y[i:i + 20])
            loss.backward()
            optimizer.step()
        print(epoch, loss.item(), accuracy(model, x[100:], y[100:]))


main()
