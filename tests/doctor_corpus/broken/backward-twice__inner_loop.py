import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(155)
encoder = nn.Sequential(nn.Linear(6, 16), nn.Tanh())
heads = nn.ModuleList(nn.Linear(16, 1) for _ in range(3))
opt = torch.optim.Adam([*encoder.parameters(), *heads.parameters()], lr=1e-3)
x = torch.randn(32, 6)
targets = [x[:, i:i + 1] for i in range(3)]
for epoch in range(4):
    opt.zero_grad()
    features = encoder(x)
    for head, target in zip(heads, targets):
        loss = F.mse_loss(head(features), target)
        loss.backward()  # BUG: backward-twice
    opt.step()
    print(epoch, loss.item())
