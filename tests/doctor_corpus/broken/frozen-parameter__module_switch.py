import argparse

import torch
from torch import nn


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=12)
    p.add_argument("--lr", type=float, default=0.05)
    return p.parse_args([])


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(7)
        self.hidden = nn.Linear(7, 20)
        self.out = nn.Linear(20, 1)
        self.hidden.requires_grad_(False)  # BUG: frozen-parameter

    def forward(self, x):
        return self.out(torch.relu(self.hidden(self.norm(x))))


def main():
    args = parse()
    torch.manual_seed(2)
    x = torch.randn(100, 7)
    y = x.prod(1, keepdim=True)
    model = Regressor()
    opt = torch.optim.SGD(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        opt.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        opt.step()
        print(epoch, loss.item())


main()
