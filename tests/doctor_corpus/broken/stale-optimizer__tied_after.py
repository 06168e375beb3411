import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(9)


class LM(nn.Module):
    def __init__(self, vocab=20, dim=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.decode = nn.Linear(dim, vocab, bias=False)

    def grow(self, extra):
        old = self.embed
        bigger = nn.Embedding(old.num_embeddings + extra, old.embedding_dim)
        bigger.weight.data[: old.num_embeddings] = old.weight.data
        self.embed = bigger  # BUG: stale-optimizer

    def forward(self, x):
        return self.decode(self.rnn(self.embed(x))[0])


model = LM()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
model.grow(5)
for step in range(15):
    x = torch.randint(0, 20, (8, 9))
    loss = F.cross_entropy(model(x[:, :-1]).transpose(1, 2), x[:, 1:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
