import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class Regressor(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.skip = nn.Linear(dim, 1)  # BUG: unused-parameter
        self.main = nn.Sequential(nn.Linear(dim, 16), nn.SiLU(), nn.Linear(16, 1))

    def forward(self, x):
        return self.main(x).squeeze(1)


def main(argv=()):
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=1e-10)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args(argv)
    torch.manual_seed(5)
    model = Regressor(5)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.0)  # BUG: learning-rate-too-low
    x = torch.randn(60, 5)
    y = x[:, 0] + 2
    for step in range(args.steps):
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(loss.item())


if __name__ == "__main__":
    main()
