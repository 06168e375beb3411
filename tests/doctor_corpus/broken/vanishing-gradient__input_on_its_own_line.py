import torch
from torch import nn


class Cell(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.take = nn.Linear(size, size)
        self.keep = nn.Linear(size, size, bias=False)
        nn.init.normal_(self.take.weight, std=0.01)
        nn.init.normal_(self.keep.weight, std=0.05)

    def forward(self, x, state):
        given = self.take(x)

        state = self.keep(state)  # BUG: vanishing-gradient
        return torch.tanh(given + state)


torch.manual_seed(0)
words, start, cell, head = nn.Embedding(9, 16), nn.Linear(16, 16), Cell(16), nn.Linear(16, 1)
layers = nn.ModuleList([words, start, cell, head])
opt = torch.optim.SGD(layers.parameters(), lr=0.05)
for step in range(20):
    tokens = torch.randint(0, 9, (40, 24))
    state = torch.tanh(start(words(tokens[0])))
    for row in tokens[1:]:
        state = cell(words(row), state)
    loss = nn.functional.binary_cross_entropy_with_logits(head(state)[:, 0], (tokens[0] > 4).float())
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
