"""Uncertainty-weighted multi-task learning with logged terms and a plateau schedule."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Weighting(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.log_var = nn.Parameter(torch.zeros(n))

    def forward(self, losses):
        stacked = torch.stack(losses)
        return (stacked * torch.exp(-self.log_var) + self.log_var).sum()


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(7, 32), nn.ReLU())
        self.heads = nn.ModuleDict({"price": nn.Linear(32, 1), "sold": nn.Linear(32, 1)})

    def forward(self, x):
        h = self.trunk(x)
        return {k: head(h).squeeze(-1) for k, head in self.heads.items()}


def run(epochs=15):
    torch.manual_seed(0)
    x = torch.randn(320, 7)
    price = 3.0 * x[:, 0] - x[:, 1]
    sold = (x[:, 2] + x[:, 3] > 0).float()
    model, weighting = Shared(), Weighting(2)
    opt = torch.optim.Adam([*model.parameters(), *weighting.parameters()], lr=5e-3)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=3, factor=0.5)
    log = {"price": [], "sold": []}
    for epoch in range(epochs):
        total = 0.0
        for rows in torch.randperm(320).split(64):
            out = model(x[rows])
            parts = [F.mse_loss(out["price"], price[rows]), F.binary_cross_entropy_with_logits(out["sold"], sold[rows])]
            loss = weighting(parts)
            opt.zero_grad()
            loss.backward()
            opt.step()
            for key, part in zip(log, parts):
                log[key].append(part.item())
            total += loss.item()
        plateau.step(total)
    print({k: (v[0], v[-1]) for k, v in log.items()})


run()
