import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(2)


class ContrastiveModel(nn.Module):
    def __init__(self, dim_in=10, dim=8):
        super().__init__()
        self.left = nn.Sequential(nn.Linear(dim_in, 16), nn.GELU(), nn.Linear(16, dim))
        self.right = nn.Sequential(nn.Linear(dim_in, 16), nn.GELU(), nn.Linear(16, dim))
        self.logit_scale = nn.Parameter(torch.tensor(2.0))  # BUG: unused-parameter

    def forward(self, a, b):
        a = F.normalize(self.left(a), dim=-1)
        b = F.normalize(self.right(b), dim=-1)
        return a @ b.t() * 7.4


mixing = torch.randn(10, 10)
model = ContrastiveModel()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
for step in range(30):
    x = torch.randn(16, 10)
    logits = model(x, x @ mixing)
    target = torch.arange(16)
    loss = (F.cross_entropy(logits, target) + F.cross_entropy(logits.t(), target)) / 2
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
