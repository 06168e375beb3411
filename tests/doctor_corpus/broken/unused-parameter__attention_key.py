import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.to_query = nn.Linear(dim, dim, bias=False)
        self.to_key = nn.Linear(dim, dim, bias=False)  # BUG: unused-parameter
        self.to_value = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        q = self.to_query(x)
        k = self.to_query(x)
        v = self.to_value(x)
        weights = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(x.size(-1)), dim=-1)
        return weights @ v


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.attn = SelfAttention(16)
        self.out = nn.Linear(16, 4)

    def forward(self, ids):
        x = self.embed(ids)
        return self.out(x + self.attn(x))


torch.manual_seed(0)
model = Tagger()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(15):
    ids = torch.randint(0, 20, (8, 6))
    loss = F.cross_entropy(model(ids).flatten(0, 1), (ids % 4).flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
