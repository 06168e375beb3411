import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset, DataLoader


class Iris(Dataset):
    def __init__(self):
        rng = np.random.default_rng(0)
        self.x = rng.normal(size=(60, 4)).astype(np.float32)
        self.y = rng.integers(0, 3, size=60).astype(np.float32)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, idx):
        return torch.from_numpy(self.x[idx]), torch.tensor(self.y[idx])


def train():
    torch.manual_seed(1)
    model = nn.Linear(4, 3)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in DataLoader(Iris(), batch_size=12):
        logits = model(x)
        loss = nn.functional.cross_entropy(logits, y)  # BUG: wrong-target
        opt.zero_grad()
        loss.backward()
        opt.step()


train()
