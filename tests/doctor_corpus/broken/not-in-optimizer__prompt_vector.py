import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(86)


class Prompted(nn.Module):
    def __init__(self, dim=12):
        super().__init__()
        self.embed = nn.Embedding(20, dim)
        self.prompt = torch.randn(3, dim, requires_grad=True)
        self.gru = nn.GRU(dim, 16, batch_first=True)
        self.out = nn.Linear(16, 2)

    def forward(self, ids):
        x = self.embed(ids)
        x = torch.cat([self.prompt.expand(len(ids), -1, -1), x], dim=1)
        return self.out(self.gru(x)[0][:, -1])


model = Prompted()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)  # BUG: not-in-optimizer
for step in range(12):
    ids = torch.randint(0, 20, (16, 5))
    loss = F.cross_entropy(model(ids), ids[:, -1] % 2)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
