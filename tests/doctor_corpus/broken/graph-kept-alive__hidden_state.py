import torch
from torch import nn

torch.manual_seed(1)


class CharRNN(nn.Module):
    def __init__(self, vocab=15, hidden=20):
        super().__init__()
        self.embed = nn.Embedding(vocab, 10)
        self.rnn = nn.LSTM(10, hidden, batch_first=True)
        self.fc = nn.Linear(hidden, vocab)

    def forward(self, tokens, state):
        out, state = self.rnn(self.embed(tokens), state)
        return self.fc(out), state


text = torch.randint(0, 15, (4, 65))
net = CharRNN()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
state = None
for start in range(0, 64, 8):
    inp, tgt = text[:, start:start + 8], text[:, start + 1:start + 9]
    logits, state = net(inp, state)  # BUG: graph-kept-alive
    loss = nn.functional.cross_entropy(logits.transpose(1, 2), tgt)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(start, loss.item())
