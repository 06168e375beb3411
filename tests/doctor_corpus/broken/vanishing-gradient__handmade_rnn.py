import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(1)


class VanillaRNN(nn.Module):
    """Has to remember the first symbol of the sequence."""

    def __init__(self, n_in, n_hidden, n_out):
        super().__init__()
        self.n_hidden = n_hidden
        self.embed = nn.Embedding(n_in, n_hidden)
        self.recur = nn.Linear(n_hidden, n_hidden)
        nn.init.normal_(self.recur.weight, std=0.02)
        self.readout = nn.Linear(n_hidden, n_out)

    def forward(self, seq):
        h = self.embed(seq[:, 0])
        for _ in range(seq.shape[1]):
            h = torch.tanh(self.recur(h))  # BUG: vanishing-gradient
        return self.readout(h)


rnn = VanillaRNN(4, 16, 4)
opt = torch.optim.SGD(rnn.parameters(), lr=0.1)
for step in range(25):
    seq = torch.randint(0, 4, (32, 15))
    loss = F.cross_entropy(rnn(seq), seq[:, 0])
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 5 == 0:
        print(step, loss.item())
