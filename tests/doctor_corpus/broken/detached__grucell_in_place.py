import torch
import torch.nn as nn


class CharRNN(nn.Module):
    def __init__(self, vocab=20, hid=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, 16)
        self.cell = nn.GRUCell(16, hid)
        self.proj = nn.Linear(hid, vocab)
        self.hid = hid

    def forward(self, tokens):
        h = torch.zeros(tokens.size(0), self.hid)
        for t in range(tokens.size(1)):
            h = self.cell(self.emb(tokens[:, t]), h)
        h.detach_()  # BUG: detached
        return self.proj(h)


torch.manual_seed(2)
net = CharRNN()
opt = torch.optim.RMSprop(net.parameters(), lr=2e-3)
seq = torch.randint(0, 20, (48, 7))
nxt = seq[:, -1].roll(1)
for i in range(20):
    logits = net(seq)
    loss = nn.functional.cross_entropy(logits, nxt)
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
print("final", loss.item())
