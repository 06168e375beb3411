import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(24)


class SimSiam(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(12, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 16))
        self.predictor = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 16))

    def forward(self, a, b):
        z1, z2 = self.encoder(a), self.encoder(b)
        p1, p2 = self.predictor(z1), self.predictor(z2)
        return p1, p2, z1.detach(), z2.detach()


model = SimSiam()
opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
base = torch.randn(64, 12)
for step in range(40):
    a = base + 0.1 * torch.randn_like(base)
    b = base + 0.1 * torch.randn_like(base)
    p1, p2, z1, z2 = model(a, b)
    loss = -(F.cosine_similarity(p1, z2).mean() + F.cosine_similarity(p2, z1).mean()) / 2
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
