import torch
import torch.nn as nn

torch.manual_seed(1)


class TwoTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.user = nn.Embedding(30, 8)
        self.item = nn.Embedding(40, 8)
        self.mix = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, u, i):
        item_vec = self.item(i).detach()  # BUG: detached
        return self.mix(torch.cat([self.user(u), item_vec], dim=1))


model = TwoTower()
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(30):
    u = torch.randint(0, 30, (32,))
    i = torch.randint(0, 40, (32,))
    rating = (u % 5).float()
    predicted = model(u, i)
    loss = ((predicted - rating) ** 2).mean()  # BUG: suspicious-broadcast
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
