import random

import torch
import torch.nn as nn


class Decoder(nn.Module):
    def __init__(self, vocab=9, hidden=16):
        super().__init__()
        self.embedding = nn.Embedding(vocab, hidden)
        self.rnn = nn.GRU(hidden, hidden)
        self.fc = nn.Linear(hidden, vocab)
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, token, state):
        out, state = self.rnn(self.embedding(token)[None], state)
        return self.softmax(self.fc(out[0])), state  # BUG: double-softmax


random.seed(0)
torch.manual_seed(0)
encoder = nn.GRU(9, 16)
decoder = Decoder()
opt = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=5e-3)
criterion = nn.CrossEntropyLoss()
for step in range(12):
    target = torch.randint(1, 9, (5, 8))
    _, state = encoder(nn.functional.one_hot(target, 9).float())
    outputs = torch.zeros(5, 8, 9)
    token = torch.zeros(8, dtype=torch.long)
    for t in range(5):
        output, state = decoder(token, state)

        outputs[t] = output
        token = target[t] if random.random() < 0.5 else output.argmax(1)
    loss = criterion(outputs.view(-1, 9), target.view(-1))
    opt.zero_grad()
    loss.backward()
    opt.step()
