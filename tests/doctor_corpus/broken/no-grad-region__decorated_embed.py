import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(5)


class SentenceModel(nn.Module):
    def __init__(self, vocab=40, dim=16):
        super().__init__()
        self.word = nn.Embedding(vocab, dim)
        self.gru = nn.GRU(dim, 24, batch_first=True)
        self.classify = nn.Linear(24, 3)

    @torch.no_grad()
    def embed(self, ids):
        vectors = self.word(ids)  # BUG: no-grad-region
        return vectors * 2.0

    def forward(self, ids):
        _, last = self.gru(self.embed(ids))
        return self.classify(last[0])


def run(steps=20):
    net = SentenceModel()
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    for _ in range(steps):
        ids = torch.randint(0, 40, (16, 7))
        y = ids[:, -1] % 3
        opt.zero_grad()
        loss = F.cross_entropy(net(ids), y)
        loss.backward()
        opt.step()
    return loss.item()


print("loss", run())
