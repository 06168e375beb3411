import torch
from torch import nn
import torch.nn.functional as F


class Recommender(nn.Module):
    def __init__(self, users, items):
        super().__init__()
        self.u, self.i = nn.Embedding(users, 12), nn.Embedding(items, 12)
        self.mlp = nn.Sequential(nn.Linear(24, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Dropout(0.2), nn.Linear(24, 1))

    def forward(self, u, i):
        return self.mlp(torch.cat([self.u(u), self.i(i)], 1)).squeeze(1)

    @torch.no_grad()
    def recommend(self, user, k=3):
        self.eval()  # BUG: eval-mode-left-on
        items = torch.arange(self.i.num_embeddings)
        return self(torch.full_like(items, user), items).topk(k).indices


torch.manual_seed(178)
model = Recommender(20, 15)
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(8):
    u, i = torch.randint(0, 20, (40,)), torch.randint(0, 15, (40,))
    click = ((u + i) % 3 == 0).float()
    loss = F.binary_cross_entropy_with_logits(model(u, i), click)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(epoch, loss.item(), model.recommend(3).tolist())
