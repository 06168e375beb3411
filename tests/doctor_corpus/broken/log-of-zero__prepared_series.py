"""Time-series forecasting: log returns of a series of daily prices."""
import torch
from torch import nn


def series(n):
    t = torch.arange(n, dtype=torch.float32)
    price = 10 + torch.sin(t / 5) + 0.1 * torch.randn(n)
    price[37] = 0.0
    return price


def windows(values, width):
    xs = values.unfold(0, width, 1)[:-1]
    return xs, values[width:].unsqueeze(1)


class Forecaster(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gru = nn.RNN(1, 12, batch_first=True)
        self.out = nn.Linear(12, 1)

    def forward(self, x):
        _, h = self.gru(x.unsqueeze(-1))
        return self.out(h[-1])


def run():
    torch.manual_seed(8)
    prices = series(80)
    returns = torch.diff(torch.log(prices))  # BUG: log-of-zero
    xs, ys = windows(returns, 8)
    model = Forecaster(8)
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(4):
        for i in range(0, len(xs), 16):
            pred = model(xs[i : i + 16])
            loss = torch.mean((pred - ys[i : i + 16]) ** 2)
            opt.zero_grad()
            loss.backward()
            opt.step()
        print("epoch", epoch, loss.item())


run()
