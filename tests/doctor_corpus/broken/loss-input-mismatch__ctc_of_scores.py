import torch
from torch import nn


class Recogniser(nn.Module):
    def __init__(self, alphabet=6):
        super().__init__()
        self.conv = nn.Conv1d(5, 16, 3, padding=1)
        self.lstm = nn.LSTM(16, 16, bidirectional=True)
        self.out = nn.Linear(32, alphabet)

    def forward(self, x):
        h = torch.relu(self.conv(x)).permute(2, 0, 1)
        h, _ = self.lstm(h)
        return self.out(h)


torch.manual_seed(0)
words = torch.randint(1, 6, (24, 4))
x = 0.1 * torch.randn(24, 5, 16)
for b in range(24):
    for k in range(4):
        x[b, words[b, k] - 1, 4 * k:4 * k + 3] += 1.0
model = Recogniser()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
ctc = nn.CTCLoss(blank=0)
input_lengths = torch.full((24,), 16, dtype=torch.long)
target_lengths = torch.full((24,), 4, dtype=torch.long)
for step in range(25):
    scores = model(x)
    loss = ctc(scores, words, input_lengths, target_lengths)  # BUG: loss-input-mismatch
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 0:
        print(step, loss.item())
