import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(7)


class Seq2Seq(nn.Module):
    def __init__(self, vocab=12, dim=16):
        super().__init__()
        self.src = nn.Embedding(vocab, dim)
        self.tgt = nn.Embedding(vocab, dim)
        self.encoder = nn.GRU(dim, dim, batch_first=True)
        self.decoder = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, vocab)

    def encode(self, src):
        with torch.no_grad():
            embedded = self.src(src)  # BUG: no-grad-region
            _, state = self.encoder(embedded)
        return state

    def forward(self, src, tgt_in):
        y, _ = self.decoder(self.tgt(tgt_in), self.encode(src))
        return self.out(y)


model = Seq2Seq()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(15):
    src = torch.randint(1, 12, (8, 5))
    tgt = src.flip(1)
    tgt_in = torch.cat([torch.zeros(8, 1, dtype=torch.long), tgt[:, :-1]], dim=1)
    logits = model(src, tgt_in)
    loss = F.cross_entropy(logits.flatten(0, 1), tgt.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
