import math

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(11)


def positions(length, dim):
    pos = torch.arange(length).float().unsqueeze(1)
    freq = torch.exp(torch.arange(0, dim, 2).float() * (-math.log(10000.0) / dim))
    enc = torch.zeros(length, dim)
    enc[:, 0::2] = torch.sin(pos * freq)
    enc[:, 1::2] = torch.cos(pos * freq)
    return enc


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x, mask):
        b, t, c = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        att = (q @ k.transpose(-2, -1)) / math.sqrt(c // self.heads)
        att = att.masked_fill(mask, float("-inf")).softmax(-1)
        x = x + self.proj((att @ v).transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, vocab=11, dim=32, length=12):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.register_buffer("pos", positions(length, dim))
        self.register_buffer("mask", torch.triu(torch.ones(length, length, dtype=torch.bool), 1))
        self.blocks = nn.ModuleList(Block(dim, 4) for _ in range(2))
        self.ln = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)
        self.head.weight = self.tok.weight

    def forward(self, ids):
        t = ids.size(1)
        x = self.tok(ids) + self.pos[:t]
        for block in self.blocks:
            x = block(x, self.mask[:t, :t])
        return self.head(self.ln(x))


model = GPT()
opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(25):
    start = torch.randint(0, 11, (8, 1))
    seq = (start + torch.arange(13)) % 11
    loss = F.cross_entropy(model(seq[:, :-1]).flatten(0, 1), seq[:, 1:].flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
