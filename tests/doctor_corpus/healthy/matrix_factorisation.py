import torch
import torch.nn as nn

torch.manual_seed(21)


class BiasedMF(nn.Module):
    def __init__(self, users, items, rank=6):
        super().__init__()
        self.P = nn.Embedding(users, rank)
        self.Q = nn.Embedding(items, rank)
        self.bu = nn.Embedding(users, 1)
        self.bi = nn.Embedding(items, 1)
        nn.init.normal_(self.P.weight, std=0.1)
        nn.init.normal_(self.Q.weight, std=0.1)
        nn.init.zeros_(self.bu.weight)
        nn.init.zeros_(self.bi.weight)

    def forward(self, u, i):
        return (self.P(u) * self.Q(i)).sum(-1) + self.bu(u).squeeze(-1) + self.bi(i).squeeze(-1)


USERS, ITEMS = 20000, 9000
model = BiasedMF(USERS, ITEMS)
opt = torch.optim.SGD(model.parameters(), lr=2.0, momentum=0.9)
u = torch.randint(0, USERS, (300,))
i = torch.randint(0, ITEMS, (300,))
rating = 0.5 + (u % 4).float() / 4
for epoch in range(15):
    loss = (model(u, i) - rating).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
