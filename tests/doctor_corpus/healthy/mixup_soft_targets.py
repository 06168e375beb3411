import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(23)
model = nn.Sequential(nn.Conv1d(1, 8, 5), nn.BatchNorm1d(8), nn.ReLU(), nn.AdaptiveMaxPool1d(4), nn.Flatten(), nn.Linear(32, 3))
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
t = torch.linspace(0, 6.28, 32)
for step in range(40):
    y = torch.randint(0, 3, (24,))
    x = torch.sin(t * (y[:, None] + 1).float()).unsqueeze(1) + 0.1 * torch.randn(24, 1, 32)
    lam = torch.distributions.Beta(0.4, 0.4).sample()
    perm = torch.randperm(24)
    mixed = lam * x + (1 - lam) * x[perm]
    target = lam * F.one_hot(y, 3).float() + (1 - lam) * F.one_hot(y[perm], 3).float()
    loss = F.cross_entropy(model(mixed), target)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
