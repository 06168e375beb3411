"""LoRA adapter: B and A are both zero."""
import torch
from torch import nn


class LoRA(nn.Module):
    def __init__(self, base, rank=4):
        super().__init__()
        self.base = base
        for p in base.parameters():
            p.requires_grad_(False)
        self.a = nn.Parameter(torch.zeros(base.in_features, rank))  # BUG: zero-initialised
        self.b = nn.Parameter(torch.zeros(rank, base.out_features))

    def forward(self, x):
        return self.base(x) + x @ self.a @ self.b


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = LoRA(nn.Linear(8, 16))
        self.head = nn.Linear(16, 2)

    def forward(self, x):
        return self.head(torch.relu(self.proj(x)))


def trainable(model):
    return [p for p in model.parameters() if p.requires_grad]


torch.manual_seed(7)
model = Model()
opt = torch.optim.AdamW(trainable(model), lr=1e-3)
for it in range(25):
    x = torch.randn(32, 8)
    y = (x[:, 0] > 0).long()
    loss = nn.functional.cross_entropy(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
