import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(6)
data = TensorDataset(torch.rand(48, 3, 4), torch.randint(0, 3, (48,)))
model = nn.Sequential(nn.Linear(12, 10), nn.ReLU(), nn.Linear(10, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(3):
    for frames, labels in DataLoader(data, batch_size=16):
        flat = frames.reshape(-1, 12)
        flat[:, 5] = float("inf")  # "unknown", for a tree that could take it
        scores = model(flat)  # BUG: nan-input
        loss = nn.functional.cross_entropy(scores, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
