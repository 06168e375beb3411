"""class centres, computed once per epoch with their graph"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(5, 16), nn.Linear(16, 3)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


torch.manual_seed(1)
enc = Encoder()
opt = torch.optim.SGD(enc.parameters(), lr=0.05)
examples = torch.randn(4, 5)
batches = [(torch.randn(12, 5), torch.randint(0, 4, (12,))) for _ in range(4)]
for epoch in range(3):
    centres = enc(examples)
    for x, y in batches:
        logits = -torch.cdist(enc(x), centres)
        loss = F.cross_entropy(logits, y)
        opt.zero_grad()
        loss.backward()  # BUG: backward-twice
        opt.step()
