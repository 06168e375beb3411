"""A small VAE on tabular data, driven by a trainer class."""
from dataclasses import dataclass

import torch
from torch import nn
import torch.nn.functional as F


@dataclass
class Config:
    features: int = 12
    hidden: int = 32
    latent: int = 4
    batch: int = 64
    epochs: int = 4
    lr: float = 2e-3


class VAE(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(cfg.features, cfg.hidden), nn.BatchNorm1d(cfg.hidden), nn.SiLU())
        self.mu = nn.Linear(cfg.hidden, cfg.latent)
        self.logvar = nn.Linear(cfg.hidden, cfg.latent)
        self.skip = nn.Linear(cfg.features, cfg.hidden)  # BUG: unused-parameter
        self.dec = nn.Sequential(
            nn.Linear(cfg.latent, cfg.hidden), nn.SiLU(), nn.Dropout(0.1), nn.Linear(cfg.hidden, cfg.features)
        )

    def forward(self, x):
        h = self.enc(x)
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.dec(z), mu, logvar


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.model = VAE(cfg)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=cfg.lr)
        basis = torch.randn(4, cfg.features)
        self.data = torch.tanh(torch.randn(512, 4) @ basis * 0.5)
        self.held_out = torch.tanh(torch.randn(128, 4) @ basis * 0.5)

    def loss(self, x):
        recon, mu, logvar = self.model(x)
        kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
        return F.mse_loss(recon, x, reduction="sum") / len(x) + 0.1 * kl

    @torch.no_grad()
    def validate(self):
        self.model.eval()  # BUG: eval-mode-left-on
        return self.loss(self.held_out).item()

    def fit(self):
        print("before training", self.validate())
        for epoch in range(self.cfg.epochs):
            for chunk in self.data[torch.randperm(len(self.data))].split(self.cfg.batch):
                self.opt.zero_grad()
                loss = self.loss(chunk)
                loss.backward()
                self.opt.step()
            print(f"epoch {epoch} val {self.validate():.3f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    Trainer(Config()).fit()
