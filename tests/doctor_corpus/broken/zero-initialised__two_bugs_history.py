"""Tiny transformer on a copy task; blocks are scaled down at the start for stability."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(-1, -2) / math.sqrt(d // self.heads)).softmax(-1)
        return self.proj((weights @ v).transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = Attention(dim, 2)
        self.up = nn.Linear(dim, 2 * dim)
        self.down = nn.Linear(2 * dim, dim)
        for layer in (self.up, self.down):
            nn.init.zeros_(layer.weight)  # BUG: zero-initialised
            nn.init.zeros_(layer.bias)

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class Model(nn.Module):
    def __init__(self, vocab=12, dim=24, length=8):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Parameter(torch.randn(length, dim) * 0.1)
        self.blocks = nn.Sequential(Block(dim), Block(dim))
        self.out = nn.Linear(dim, vocab)

    def forward(self, ids):
        return self.out(self.blocks(self.tok(ids) + self.pos))


torch.manual_seed(9)
model = Model()
opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
history = []
for step in range(40):
    ids = torch.randint(0, 12, (32, 8))
    loss = F.cross_entropy(model(ids).flatten(0, 1), ids.flip(1).flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
    history.append(loss)  # BUG: graph-kept-alive
print("mean of the last ten", torch.stack(history[-10:]).mean().item())
