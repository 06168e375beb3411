import torch
import torch.nn as nn


class CenterLoss(nn.Module):
    def __init__(self, classes, dim):
        super().__init__()
        self.centers = nn.Parameter(torch.randn(classes, dim))

    def forward(self, feats, labels):
        return (feats - self.centers[labels]).pow(2).sum(1).mean()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.feat = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 4))
        self.cls = nn.Linear(4, 3)

    def forward(self, x):
        f = self.feat(x)
        return f, self.cls(f)


def main():
    torch.manual_seed(9)
    net, center_loss, ce = Net(), CenterLoss(3, 4), nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)  # BUG: not-in-optimizer
    x = torch.randn(90, 8)
    y = x[:, :3].argmax(1)
    for epoch in range(20):
        f, logits = net(x)
        loss = ce(logits, y) + 0.1 * center_loss(f, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(loss.item())


main()
