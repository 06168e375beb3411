import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def prepare():
    rng = np.random.default_rng(0)
    raw = np.stack([rng.uniform(500, 3000, 160), rng.integers(1, 6, 160), rng.integers(1950, 2020, 160)], 1)
    price = raw[:, 0] / 1000 + 0.3 * raw[:, 1] + 0.01 * (raw[:, 2] - 1985)
    x = (raw - raw.mean(0)) / raw.std(0)
    return torch.tensor(x, dtype=torch.float32), torch.tensor(price, dtype=torch.float32)


torch.manual_seed(50)
x, y = prepare()
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
model = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 1))
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(8):
    total = 0.0
    for xb, yb in loader:
        loss = nn.functional.mse_loss(model(xb).squeeze(-1), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(xb)
    print(epoch, total / len(x))
