import torch
from torch import nn


class PointerAttention(nn.Module):
    def __init__(self, dim=16, temperature=0.002):
        super().__init__()
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.temperature = temperature

    def forward(self, q, memory):
        scores = torch.einsum("bd,btd->bt", self.query(q), self.key(memory))
        return torch.softmax(scores / self.temperature, dim=-1)  # BUG: saturated-activation


class Reader(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.attention = PointerAttention(dim)
        self.out = nn.Linear(dim, 4)

    def forward(self, q, memory):
        weights = self.attention(q, memory)
        return self.out(torch.einsum("bt,btd->bd", weights, memory))


torch.manual_seed(0)
reader = Reader()
optimizer = torch.optim.Adam(reader.parameters(), lr=3e-3)
for step in range(60):
    memory = torch.randn(32, 9, 16)
    where = torch.randint(0, 9, (32,))
    q = memory[torch.arange(32), where]
    label = q[:, :4].argmax(dim=1)
    loss = nn.functional.cross_entropy(reader(q, memory), label)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item(), reader.attention.key.weight.grad.abs().max().item())
