"""Swapped arguments: cross_entropy(target, prediction) with soft labels, and a missing zero_grad."""
import torch
import torch.nn.functional as F
from torch import nn


class Mixup:
    def __init__(self, alpha=0.3):
        self.beta = torch.distributions.Beta(alpha, alpha)

    def __call__(self, x, y):
        lam = self.beta.sample()
        i = torch.randperm(len(x))
        return lam * x + (1 - lam) * x[i], lam * y + (1 - lam) * y[i]


def main():
    torch.manual_seed(6)
    model = nn.Sequential(nn.Linear(5, 20), nn.ReLU(), nn.Linear(20, 3))
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    mix = Mixup()
    for it in range(20):
        x = torch.randn(32, 5)
        y = F.one_hot(x[:, :3].argmax(1), 3).float()
        xm, ym = mix(x, y)
        loss = F.cross_entropy(ym, model(xm))  # BUG: loss-input-mismatch
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it % 5 == 0:
            print(it, loss.item())


main()
