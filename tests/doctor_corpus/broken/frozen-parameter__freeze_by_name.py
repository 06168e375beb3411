import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(184)


class Bert(nn.Module):
    def __init__(self):
        super().__init__()
        self.embeddings = nn.Embedding(40, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.classifier = nn.Linear(16, 2)

    def forward(self, ids):
        return self.classifier(self.layer(self.embeddings(ids)).mean(1))


model = Bert()
for name, param in model.named_parameters():
    if "classifier" not in name:
        param.requires_grad = False  # BUG: frozen-parameter
no_decay = ["bias", "norm"]
groups = [
    {"params": [p for n, p in model.named_parameters() if not any(k in n for k in no_decay)], "weight_decay": 0.01},
    {"params": [p for n, p in model.named_parameters() if any(k in n for k in no_decay)], "weight_decay": 0.0},
]
optimizer = torch.optim.AdamW(groups, lr=1e-3)
for step in range(10):
    ids = torch.randint(0, 40, (8, 6))
    loss = F.cross_entropy(model(ids), ids[:, 0] % 2)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
