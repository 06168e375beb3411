import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(152)


class Remember(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(4, 12)
        self.w = nn.Linear(12, 12)
        self.out = nn.Linear(12, 4)

    def step(self, h):
        return torch.sigmoid(self.w(h))  # BUG: vanishing-gradient

    def forward(self, first, delay):
        h = self.embed(first)
        for _ in range(delay):
            h = self.step(h)
        return self.out(h)


model = Remember()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for it in range(25):
    first = torch.randint(0, 4, (32,))
    loss = F.cross_entropy(model(first, 12), first)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
