import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(34)


class Language(nn.Module):
    def __init__(self, vocab=14):
        super().__init__()
        self.emb = nn.Embedding(vocab, 16)
        self.rnn = nn.GRU(16, 24, batch_first=True)
        self.out = nn.Linear(24, vocab)
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, x):
        h, _ = self.rnn(self.emb(x))
        return self.softmax(self.out(h))  # BUG: double-softmax


def sequence_loss(output, target):
    logp = F.log_softmax(output, dim=-1)
    return F.nll_loss(logp.reshape(-1, logp.size(-1)), target.reshape(-1))


lm = Language()
opt = torch.optim.Adam(lm.parameters(), lr=5e-3)
for step in range(12):
    text = (torch.randint(0, 14, (8, 1)) + torch.arange(9)) % 14
    loss = sequence_loss(lm(text[:, :-1]), text[:, 1:])
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
