import torch
from torch import nn

torch.manual_seed(5)


class CharLSTM(nn.Module):
    def __init__(self, vocab, hidden=24):
        super().__init__()
        self.embed = nn.Embedding(vocab, 12)
        self.lstm = nn.LSTM(12, hidden, batch_first=True)
        self.fc = nn.Linear(hidden, vocab)

    def forward(self, x, state=None):
        out, state = self.lstm(self.embed(x), state)
        return self.fc(out), state


period = torch.arange(8).repeat(4, 30)
net = CharLSTM(8)
opt = torch.optim.Adam(net.parameters(), lr=2e-2)
for epoch in range(2):
    state = None
    for start in range(0, 160, 16):
        inp, tgt = period[:, start:start + 16], period[:, start + 1:start + 17]
        if state is not None:
            state = tuple(s.detach() for s in state)
        logits, state = net(inp, state)
        loss = nn.functional.cross_entropy(logits.reshape(-1, 8), tgt.reshape(-1))
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        opt.step()
    print(epoch, loss.item())
