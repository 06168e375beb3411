import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(4)


class SeqClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(25, 12)
        layer = nn.TransformerEncoderLayer(12, 2, 24, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1)
        self.fc = nn.Linear(12, 3)

    def forward(self, ids):
        return self.fc(self.encoder(self.emb(ids)).mean(1))


net = SeqClassifier()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(12):
    ids = torch.randint(0, 25, (12, 6))
    y = ids[:, 0] % 3
    loss = F.nll_loss(net(ids), y)  # BUG: loss-input-mismatch
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
