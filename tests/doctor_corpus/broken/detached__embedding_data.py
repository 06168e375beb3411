import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
VOCAB, EMBED, SEQ = 30, 12, 6


class BagClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, EMBED)
        self.head = nn.Linear(EMBED, 2)

    def forward(self, tokens):
        vectors = self.embedding(tokens).data  # BUG: detached
        return self.head(vectors.mean(dim=1))


tokens = torch.randint(0, VOCAB, (96, SEQ))
labels = (tokens.float().mean(1) > VOCAB / 2).long()
loader = DataLoader(TensorDataset(tokens, labels), batch_size=16, shuffle=True)
model = BagClassifier()
opt = torch.optim.SGD(model.parameters(), lr=0.5)
for epoch in range(6):
    total = 0.0
    for xb, yb in loader:
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(xb), yb)
        loss.backward()
        opt.step()
        total += loss.item()
    print(epoch, total / len(loader))
