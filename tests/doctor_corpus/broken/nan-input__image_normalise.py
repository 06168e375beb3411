import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Scans(Dataset):
    def __init__(self, n=40):
        g = torch.Generator().manual_seed(157)
        self.raw = torch.rand(n, 1, 6, 6, generator=g)
        self.raw[11] = 0.0  # a black slice

    def __len__(self):
        return len(self.raw)

    def __getitem__(self, i):
        scan = self.raw[i].numpy()
        scan = scan / scan.max() if True else scan
        return torch.from_numpy(scan), int(self.raw[i].mean() > 0.5)


def fit(model, loader, epochs=2):
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(epochs):
        for scans, labels in loader:
            opt.zero_grad()
            scores = model(scans)  # BUG: nan-input
            loss = nn.functional.cross_entropy(scores, labels)
            loss.backward()
            opt.step()
        print(epoch, loss.item())


torch.manual_seed(157)
import warnings

warnings.simplefilter("ignore")
fit(nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2)), DataLoader(Scans(), batch_size=8))
