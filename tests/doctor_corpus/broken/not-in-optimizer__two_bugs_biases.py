import numpy as np
import torch
import torch.nn as nn

rng = np.random.default_rng(0)
torch.manual_seed(0)

N_USERS, N_ITEMS, DIM = 60, 40, 8
true_u, true_i = rng.normal(size=(N_USERS, 4)), rng.normal(size=(N_ITEMS, 4))
users = rng.integers(0, N_USERS, 2000)
items = rng.integers(0, N_ITEMS, 2000)
clicked = ((true_u[users] * true_i[items]).sum(1) + rng.normal(size=2000) * 0.3 > 0).astype(np.float32)


class MatrixFactorisation(nn.Module):
    def __init__(self):
        super().__init__()
        self.user = nn.Embedding(N_USERS, DIM)
        self.item = nn.Embedding(N_ITEMS, DIM)
        self.user_bias = nn.Embedding(N_USERS, 1)
        self.item_bias = nn.Embedding(N_ITEMS, 1)
        for table in (self.user, self.item):
            nn.init.normal_(table.weight, std=0.3)
        for table in (self.user_bias, self.item_bias):
            nn.init.zeros_(table.weight)

    def forward(self, u, i):
        dot = (self.user(u) * self.item(i)).sum(-1)
        score = dot + self.user_bias(u).squeeze(-1) + self.item_bias(i).squeeze(-1)
        return torch.sigmoid(score)  # BUG: sigmoid-before-logits-loss


model = MatrixFactorisation()
criterion = nn.BCEWithLogitsLoss()
optimizer = torch.optim.Adam(  # BUG: not-in-optimizer
    [
        {"params": model.user.parameters(), "weight_decay": 1e-5},
        {"params": model.item.parameters(), "weight_decay": 1e-5},
    ],
    lr=0.02,
)

u, i, y = torch.from_numpy(users), torch.from_numpy(items), torch.from_numpy(clicked)
for epoch in range(5):
    order = torch.randperm(len(y))
    running = 0.0
    for idx in order.split(200):
        optimizer.zero_grad()
        loss = criterion(model(u[idx], i[idx]), y[idx])
        loss.backward()
        optimizer.step()
        running += loss.item() * len(idx)
    print(f"epoch {epoch}  bce {running / len(y):.4f}")
