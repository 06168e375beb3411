import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(87)


class LearnedPositions(nn.Module):
    def __init__(self, length=6, dim=16, vocab=25):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Parameter(torch.zeros(length, dim), requires_grad=False)  # BUG: frozen-parameter
        self.enc = nn.TransformerEncoderLayer(dim, 2, 32, dropout=0.0, batch_first=True)
        self.out = nn.Linear(dim, 2)

    def forward(self, ids):
        return self.out(self.enc(self.tok(ids) + self.pos)[:, 0])


net = LearnedPositions()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(12):
    ids = torch.randint(0, 25, (8, 6))
    y = (ids[:, 0] > ids[:, 1]).long()
    loss = F.cross_entropy(net(ids), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
