import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Spam(Dataset):
    def __init__(self, size=96):
        generator = torch.Generator().manual_seed(0)
        self.words = torch.rand(size, 7, generator=generator)
        self.labels = (self.words[:, 0] > self.words[:, 1]).long()

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.words[i], self.labels[i]


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(7, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
criterion = nn.BCEWithLogitsLoss()
for epoch in range(6):
    for words, labels in DataLoader(Spam(), batch_size=24, shuffle=True):
        logits = model(words).squeeze(1)
        loss = criterion(logits, labels)  # BUG: wrong-target
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
