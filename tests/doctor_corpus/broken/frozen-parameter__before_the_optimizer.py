import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self, words=40, width=12, tags=5):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.rnn = nn.GRU(width, 16, batch_first=True)
        self.out = nn.Linear(16, tags)

    def forward(self, tokens):
        return self.out(self.rnn(self.embed(tokens))[0])


device = torch.device("cpu")
torch.manual_seed(4)
model = Tagger().to(device)
model.embed.weight.requires_grad_(False)  # BUG: frozen-parameter
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
tokens = torch.randint(0, 40, (32, 9))
tags = tokens % 5
for epoch in range(15):
    logits = model(tokens.to(device))
    loss = criterion(logits.flatten(0, 1), tags.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
