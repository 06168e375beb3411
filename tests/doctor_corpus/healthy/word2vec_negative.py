import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(69)


class SkipGram(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.center = nn.Embedding(vocab, dim, sparse=False)
        self.context = nn.Embedding(vocab, dim)
        nn.init.uniform_(self.center.weight, -0.5 / dim, 0.5 / dim)
        nn.init.zeros_(self.context.weight)

    def forward(self, c, pos, neg):
        v = self.center(c)
        good = (v * self.context(pos)).sum(-1)
        bad = torch.bmm(self.context(neg), v.unsqueeze(2)).squeeze(2)
        return -(F.logsigmoid(good) + F.logsigmoid(-bad).sum(1)).mean()


model = SkipGram(200, 16)
opt = torch.optim.Adam(model.parameters(), lr=2e-2)
for step in range(60):
    c = torch.randint(0, 200, (64,))
    loss = model(c, (c + 1) % 200, torch.randint(0, 200, (64, 5)))
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
