import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(175)


class Encoder(nn.Module):
    def __init__(self, vocab, dim, length):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(length, dim)  # BUG: unused-parameter
        self.attn = nn.MultiheadAttention(dim, 2, batch_first=True)
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, 2)

    def forward(self, ids):
        x = self.tok(ids)
        a, _ = self.attn(x, x, x, need_weights=False)
        return self.head(self.norm(x + a).mean(1))


net = Encoder(30, 16, 8)
opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
for step in range(15):
    ids = torch.randint(0, 30, (12, 8))
    loss = F.cross_entropy(net(ids), (ids[:, 0] > ids[:, -1]).long())
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
