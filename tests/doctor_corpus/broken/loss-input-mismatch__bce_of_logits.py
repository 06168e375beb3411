import torch
from torch import nn

torch.manual_seed(1)


class LogReg(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.linear = nn.Linear(d, 1)

    def forward(self, x):
        return self.linear(x)[:, 0]


def run(epochs=10):
    x = torch.randn(100, 5) * 3
    y = (x[:, 1] > 0).float()
    clf = LogReg(5)
    loss_fn = nn.BCELoss()
    opt = torch.optim.SGD(clf.parameters(), lr=0.1)
    for _ in range(epochs):
        opt.zero_grad()
        loss = loss_fn(clf(x), y)  # BUG: loss-input-mismatch
        loss.backward()
        opt.step()
    return loss.item()


print(run())
