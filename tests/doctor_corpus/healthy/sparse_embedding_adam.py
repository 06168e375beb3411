import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class Ranker(nn.Module):
    def __init__(self, users, items, size=6):
        super().__init__()
        self.users = nn.Embedding(users, size, sparse=True)
        self.items = nn.EmbeddingBag(items, size, mode="sum", sparse=True)
        self.scale = nn.Linear(size, 1)

    def forward(self, user, basket):
        return self.scale(self.users(user) * self.items(basket)).squeeze(1)


ranker = Ranker(40, 90)
tables = torch.optim.SparseAdam([ranker.users.weight, ranker.items.weight], lr=0.02)
rest = torch.optim.Adam(ranker.scale.parameters(), lr=0.01)
for step in range(30):
    user, basket = torch.randint(0, 40, (32,)), torch.randint(0, 90, (32, 3))
    liked = (user % 3 == basket[:, 0] % 3).float()
    loss = F.binary_cross_entropy_with_logits(ranker(user, basket), liked)
    tables.zero_grad()
    rest.zero_grad()
    loss.backward()
    tables.step()
    rest.step()
    if step % 10 == 0:
        print(step, loss.item())
