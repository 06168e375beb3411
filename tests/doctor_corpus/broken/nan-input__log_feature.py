import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class Sales(Dataset):
    def __init__(self, n=90):
        rng = np.random.default_rng(3)
        counts = rng.poisson(2.0, size=(n, 6)).astype(np.float32)
        with np.errstate(divide="ignore"):
            self.x = np.log(counts)
        self.y = counts.sum(1)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return torch.tensor(self.x[i]), torch.tensor(self.y[i])


class Trainer:
    def __init__(self, model):
        self.model = model
        self.opt = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(self, batch):
        x, y = batch
        out = self.model(x)  # BUG: nan-input
        loss = nn.functional.l1_loss(out[:, 0], y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()


torch.manual_seed(0)
trainer = Trainer(nn.Sequential(nn.Linear(6, 8), nn.SiLU(), nn.Linear(8, 1)))
for epoch in range(3):
    losses = [trainer.step(b) for b in DataLoader(Sales(), batch_size=30)]
    print(epoch, sum(losses) / len(losses))
