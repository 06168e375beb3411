import torch
import torch.nn as nn


class LinearRNNCell(nn.Module):
    def __init__(self, i, h):
        super().__init__()
        self.inp = nn.Linear(i, h)
        self.rec = nn.Linear(h, h, bias=False)
        nn.init.orthogonal_(self.rec.weight, gain=1.6)

    def forward(self, x, h):
        return self.rec(h) + self.inp(x)  # BUG: exploding-gradient
class CharModel(nn.Module):
    def __init__(self, vocab=12, h=24):
        super().__init__()
        self.emb = nn.Embedding(vocab, h)
        self.cell = LinearRNNCell(h, h)
        self.out = nn.Linear(h, vocab)

    def forward(self, ids):
        h = torch.zeros(ids.shape[0], 24)
        for t in range(ids.shape[1]):
            h = self.cell(self.emb(ids[:, t]), h)
        return self.out(h)


torch.manual_seed(0)
net = CharModel()
opt = torch.optim.SGD(net.parameters(), lr=1e-3)
for step in range(30):
    start = torch.randint(0, 12, (32, 1))
    seq = (start + torch.arange(31)) % 12
    loss = nn.functional.cross_entropy(net(seq[:, :30]), seq[:, 30])
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 0.5)
    opt.step()
    if step % 10 == 0:
        print(step, loss.item())
