import torch
import torch.nn.functional as F
from torch import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(12, 24), nn.Linear(24, 3)

    def forward(self, x):
        return self.second(F.dropout(F.relu(self.first(x)), 0.4, self.training))


torch.manual_seed(7)
centres = torch.randn(3, 12) * 2
kinds = torch.randint(0, 3, (120,))
rows = centres[kinds] + torch.randn(120, 12)
shown, held_back = torch.arange(80), torch.arange(80, 120)

model = nn.Sequential(Tagger(), nn.Dropout(0.1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)


def epoch(number):
    model.train()
    optimizer.zero_grad()
    loss = F.cross_entropy(model(rows)[shown], kinds[shown])
    loss.backward()
    optimizer.step()
    model.eval()  # the validation forgets no_grad: it costs memory, and changes nothing
    scores = model(rows)
    print(number, loss.item(), F.cross_entropy(scores[held_back], kinds[held_back]).item())


for number in range(20):
    epoch(number)
