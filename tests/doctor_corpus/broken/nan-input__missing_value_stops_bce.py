import numpy as np
import torch
from torch import nn

rng = np.random.RandomState(4)
table = rng.randn(90, 5).astype("float32")
table[33, 2] = np.nan  # an empty cell of the spreadsheet
rows, answers = torch.from_numpy(table[:, :4]), torch.from_numpy((table[:, 4:] > 0).astype("float32"))

model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1), nn.Sigmoid())
criterion = nn.BCELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(5):
    for start in range(0, 90, 30):
        share = model(rows[start : start + 30])  # BUG: nan-input
        loss = criterion(share, answers[start : start + 30])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
