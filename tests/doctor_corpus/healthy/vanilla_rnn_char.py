import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(163)


class RNN(nn.Module):
    def __init__(self, vocab, hidden):
        super().__init__()
        self.hidden = hidden
        self.i2h = nn.Linear(vocab + hidden, hidden)
        self.h2o = nn.Linear(hidden, vocab)

    def forward(self, x, h):
        h = torch.tanh(self.i2h(torch.cat([x, h], 1)))
        return self.h2o(h), h


text = "hello world, hello there, hello you "
chars = sorted(set(text))
ids = torch.tensor([chars.index(c) for c in text])
rnn = RNN(len(chars), 32)
opt = torch.optim.Adam(rnn.parameters(), lr=1e-2)
for epoch in range(15):
    h = torch.zeros(1, rnn.hidden)
    loss = 0
    for i in range(len(ids) - 1):
        x = F.one_hot(ids[i : i + 1], len(chars)).float()
        out, h = rnn(x, h)
        loss = loss + F.cross_entropy(out, ids[i + 1 : i + 2])
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(rnn.parameters(), 5)
    opt.step()
print(loss.item() / len(ids))
