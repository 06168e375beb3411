"""Proxy-anchored embedding: the encoder and the class proxies have an optimizer each."""
import torch
from torch import nn
import torch.nn.functional as F


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(14, 32), nn.LeakyReLU(0.1))
        self.project = nn.Linear(32, 6)
        self.scale = nn.Parameter(torch.tensor(5.0))

    def forward(self, x):
        return F.normalize(self.project(self.stem(x)), dim=1), self.scale.data  # BUG: detached


class Proxies(nn.Module):
    def __init__(self, classes, dim):
        super().__init__()
        self.table = nn.Parameter(torch.randn(classes, dim))

    def forward(self):
        return F.normalize(self.table, dim=1)


class Experiment:
    def __init__(self, classes=5):
        self.encoder, self.proxies = Encoder(), Proxies(classes, 6)
        self.opt_encoder = torch.optim.Adam(self.encoder.parameters(), lr=2e-3)
        self.opt_proxies = torch.optim.SGD(self.proxies.parameters(), lr=0.1)
        self.centres = torch.randn(classes, 14) * 2

    def batch(self, n=60):
        y = torch.randint(0, len(self.centres), (n,))
        return self.centres[y] + torch.randn(n, 14), y

    def step(self):
        x, y = self.batch()
        z, scale = self.encoder(x)
        logits = scale * z @ self.proxies().T
        loss = F.cross_entropy(logits, y)
        self.opt_encoder.zero_grad()
        self.opt_proxies.zero_grad()  # BUG: missing-step
        loss.backward()  # BUG: missing-step
        self.opt_encoder.step()
        return loss.item()


torch.manual_seed(6)
experiment = Experiment()
for i in range(40):
    value = experiment.step()
    if i % 10 == 0:
        print(i, value)
