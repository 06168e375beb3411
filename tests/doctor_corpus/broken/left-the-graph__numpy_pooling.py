import numpy as np
import torch
import torch.nn as nn

torch.manual_seed(7)


class TopKPool(nn.Module):
    """Keep the k strongest activations of every channel."""

    def __init__(self, k):
        super().__init__()
        self.k = k

    def forward(self, x):
        values = x.detach().numpy()  # BUG: left-the-graph
        top = np.sort(values, axis=-1)[..., -self.k:]
        return torch.from_numpy(np.ascontiguousarray(top)).mean(-1)


class Audio(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(1, 12, kernel_size=5)
        self.pool = TopKPool(3)
        self.out = nn.Linear(12, 2)

    def forward(self, wave):
        return self.out(self.pool(self.conv(wave)))


model = Audio()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
criterion = nn.CrossEntropyLoss()
t = torch.linspace(0, 6.28, 40)
for it in range(25):
    label = torch.randint(0, 2, (24,))
    wave = torch.sin(t * (1 + 2 * label.float())[:, None])[:, None] + 0.1 * torch.randn(24, 1, 40)
    loss = criterion(model(wave), label)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("done", loss.item())
