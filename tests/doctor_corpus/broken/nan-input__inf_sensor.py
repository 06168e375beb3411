import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(17)
rng = np.random.default_rng(17)
table = rng.normal(size=(64, 6)).astype(np.float32)
table[rng.integers(0, 64, 5), 5] = np.inf  # overflowed sensor
inputs = torch.as_tensor(table)
goal = torch.as_tensor(table[:, 0] * 0.5)
model = nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 16), nn.GELU(), nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)


def run_epoch(loader):
    for batch, target in loader:
        optimizer.zero_grad()
        output = model(batch)[:, 0]  # BUG: nan-input
        loss = nn.functional.huber_loss(output, target)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return loss.item()


for epoch in range(3):
    print(epoch, run_epoch(DataLoader(TensorDataset(inputs, goal), batch_size=16)))
