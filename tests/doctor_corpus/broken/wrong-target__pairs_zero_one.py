import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pairs(Dataset):
    def __init__(self, size=160):
        generator = torch.Generator().manual_seed(0)
        centres = torch.randn(6, 12, generator=generator)
        left = torch.randint(0, 6, (size,), generator=generator)
        same = torch.rand(size, generator=generator) < 0.5
        right = torch.where(same, left, (left + 1) % 6)
        self.a = centres[left] + 0.4 * torch.randn(size, 12, generator=generator)
        self.b = centres[right] + 0.4 * torch.randn(size, 12, generator=generator)
        self.label = same.float()

    def __len__(self):
        return len(self.label)

    def __getitem__(self, i):
        return self.a[i], self.b[i], self.label[i]


torch.manual_seed(0)
tower = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 6))
criterion = nn.CosineEmbeddingLoss(margin=0.2)
optimizer = torch.optim.Adam(tower.parameters(), lr=3e-3)
for epoch in range(8):
    for a, b, label in DataLoader(Pairs(), batch_size=32, shuffle=True):
        loss = criterion(tower(a), tower(b), label)  # BUG: wrong-target
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
