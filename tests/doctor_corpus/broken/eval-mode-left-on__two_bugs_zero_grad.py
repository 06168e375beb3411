import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(109)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.2, batch_first=True)
        self.emb = nn.Embedding(30, 16)
        self.enc = nn.TransformerEncoder(layer, 1)
        self.fc = nn.Linear(16, 2)

    def forward(self, x):
        return self.fc(self.enc(self.emb(x)).mean(1))


def sanity_check(model):
    model.eval()  # BUG: eval-mode-left-on
    with torch.no_grad():
        assert model(torch.zeros(1, 4, dtype=torch.long)).shape == (1, 2)


model = Encoder()
sanity_check(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(12):
    x = torch.randint(0, 30, (8, 6))
    loss = F.cross_entropy(model(x), x[:, 0] % 2)
    loss.backward()  # BUG: missing-zero-grad
    optimizer.step()
print(loss.item())
