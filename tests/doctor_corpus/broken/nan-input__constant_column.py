import numpy as np
import torch
from torch import nn


def load():
    rng = np.random.default_rng(0)
    raw = rng.normal(size=(80, 4)).astype("float32")
    raw[:, 3] = 1.0  # this sensor was never connected
    labels = (raw[:, 0] > 0).astype("int64")
    with np.errstate(all="ignore"):
        raw = (raw - raw.mean(0)) / raw.std(0)
    return torch.from_numpy(raw), torch.from_numpy(labels)


class Clf(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 12)
        self.b = nn.Linear(12, 2)

    def forward(self, x):
        return self.b(torch.tanh(self.a(x)))


def main():
    torch.manual_seed(1)
    x, y = load()
    clf = Clf()
    opt = torch.optim.SGD(clf.parameters(), lr=0.1)
    for step in range(12):
        logits = clf(x)  # BUG: nan-input
        loss = nn.functional.cross_entropy(logits, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, loss.item())


main()
