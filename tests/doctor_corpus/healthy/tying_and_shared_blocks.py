import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(160)


class Shared(nn.Module):
    """ALBERT style: one block used several times, and the decoder tied to the embedding."""

    def __init__(self, vocab=18, dim=20):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        nn.init.normal_(self.embed.weight, std=0.1)
        self.block = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 40), nn.GELU(), nn.Linear(40, dim))

    def forward(self, x):
        h = self.embed(x)
        for _ in range(4):
            h = h + self.block(h)
        return h @ self.embed.weight.t()


net = Shared()
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
for step in range(40):
    x = torch.randint(0, 18, (16, 7))
    loss = F.cross_entropy(net(x).flatten(0, 1), ((x + 3) % 18).flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
