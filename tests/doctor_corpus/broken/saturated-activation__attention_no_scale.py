import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(2)


class Attention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.q = nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(dim, dim, bias=False)
        self.v = nn.Linear(dim, dim, bias=False)
        nn.init.normal_(self.q.weight, std=1.0)
        nn.init.normal_(self.k.weight, std=1.0)

    def forward(self, x):
        scores = self.q(x) @ self.k(x).transpose(1, 2)
        weights = F.softmax(scores, dim=-1)  # BUG: saturated-activation
        return weights @ self.v(x)


class Model(nn.Module):
    def __init__(self, dim=64, classes=4):
        super().__init__()
        self.attn = Attention(dim)
        self.fc = nn.Linear(dim, classes)

    def forward(self, x):
        return self.fc(self.attn(x).mean(1))


model = Model()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(15):
    x = torch.randn(8, 10, 64)
    y = torch.randint(0, 4, (8,))
    loss = F.cross_entropy(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
