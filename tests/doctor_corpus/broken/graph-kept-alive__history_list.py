import torch
import torch.nn as nn
import torch.nn.functional as F


class Meter:
    def __init__(self):
        self.values = []

    def update(self, value):
        self.values.append(value)  # BUG: graph-kept-alive

    @property
    def mean(self):
        return sum(self.values) / len(self.values)


def main():
    torch.manual_seed(2)
    model = nn.Sequential(nn.Conv1d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 8, 2))
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    meter = Meter()
    for step in range(30):
        x = torch.randn(8, 3, 10)
        y = (x.mean((1, 2)) > 0).long()
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        meter.update(loss)
    print("mean loss", meter.mean)


main()
