import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(2)


class Sentiment(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.EmbeddingBag(60, 16)
        self.drop = nn.Dropout(0.3)
        self.fc = nn.Linear(16, 3)

    def forward(self, ids):
        return self.fc(self.drop(self.emb(ids)))

    def predict_proba(self, ids):
        return self.forward(ids).softmax(1)  # BUG: double-softmax


ids = torch.randint(0, 60, (90, 5))
y = ids[:, 0] % 3
model = Sentiment()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
print("before:", F.cross_entropy(model(ids), y).item())
model.eval()  # BUG: eval-mode-left-on
for epoch in range(6):
    for a, b in zip(ids.split(30), y.split(30)):
        optimizer.zero_grad()
        loss = F.cross_entropy(model.predict_proba(a), b)
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
