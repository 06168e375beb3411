import torch
from torch import nn


def build():
    return nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, 1))


class CrossValidation:
    def __init__(self, folds):
        self.folds = folds
        self.model = build()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-2)

    def reset(self):
        self.model = build()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-2)

    def run(self, x, y):
        scores = []
        for k in range(self.folds):
            self.reset()
            keep = torch.arange(len(x)) % self.folds != k
            for _ in range(20):
                loss = nn.functional.mse_loss(self.model(x[keep]), y[keep])
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            with torch.no_grad():
                scores.append(nn.functional.mse_loss(self.model(x[~keep]), y[~keep]).item())
        return scores


torch.manual_seed(120)
x = torch.randn(90, 6)
print(CrossValidation(3).run(x, x.sum(1, keepdim=True)))
