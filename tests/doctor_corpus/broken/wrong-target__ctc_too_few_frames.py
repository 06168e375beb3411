import torch
from torch import nn


class Recogniser(nn.Module):
    def __init__(self, alphabet=8):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(6, 16, 3, padding=1), nn.ReLU(), nn.MaxPool1d(2),
            nn.Conv1d(16, 16, 3, padding=1), nn.ReLU(), nn.MaxPool1d(2),
        )
        self.out = nn.Linear(16, alphabet)

    def forward(self, x):
        h = self.conv(x).permute(2, 0, 1)
        return torch.log_softmax(self.out(h), dim=2)


torch.manual_seed(3)
lines = torch.randn(20, 6, 24)
lengths = torch.randint(3, 8, (20,))
labels = torch.cat([torch.randint(1, 8, (int(n),)) for n in lengths])
model = Recogniser()
criterion = nn.CTCLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(8):
    log_probs = model(lines)
    frames = torch.full((20,), log_probs.size(0), dtype=torch.long)
    loss = criterion(log_probs, labels, frames, lengths)  # BUG: wrong-target
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
