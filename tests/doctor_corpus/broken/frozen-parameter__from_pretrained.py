import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(1)


class TextLSTM(nn.Module):
    def __init__(self, vectors, hidden=16, classes=2):
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(vectors)  # BUG: frozen-parameter
        self.lstm = nn.LSTM(vectors.size(1), hidden, batch_first=True)
        self.fc = nn.Linear(hidden, classes)

    def forward(self, ids):
        _, (h, _) = self.lstm(self.embedding(ids))
        return self.fc(h[-1])


vectors = 0.1 * torch.randn(50, 10)
model = TextLSTM(vectors)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(20):
    ids = torch.randint(0, 50, (16, 8))
    y = (ids.float().mean(1) > 24.5).long()
    loss = F.cross_entropy(model(ids), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 0:
        print(step, loss.item())
