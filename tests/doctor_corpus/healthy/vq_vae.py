import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(124)


class VectorQuantizer(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.codebook = nn.Embedding(n, d)
        nn.init.uniform_(self.codebook.weight, -1, 1)

    def forward(self, z):
        index = torch.cdist(z, self.codebook.weight).argmin(1)
        q = self.codebook(index)
        loss = F.mse_loss(q, z.detach()) + 0.25 * F.mse_loss(z, q.detach())
        return z + (q - z).detach(), loss


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 4), nn.BatchNorm1d(4))
        self.vq = VectorQuantizer(16, 4)
        self.dec = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 8))

    def forward(self, x):
        q, vq_loss = self.vq(self.enc(x))
        return self.dec(q), vq_loss


centers = torch.randn(8, 8)
model = Model()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(80):
    x = centers[torch.randint(0, 8, (64,))] + 0.05 * torch.randn(64, 8)
    recon, vq_loss = model(x)
    loss = F.mse_loss(recon, x) + vq_loss
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
