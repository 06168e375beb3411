import torch
import torch.nn as nn

torch.manual_seed(2)

backbone = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 16), nn.Tanh())
head = nn.Linear(16, 1)

backbone_params = backbone.parameters()
print("backbone size:", sum(p.numel() for p in backbone_params))

optimizer = torch.optim.Adam([{"params": backbone_params, "lr": 1e-3}, {"params": head.parameters(), "lr": 1e-2}])  # BUG: not-in-optimizer

x = torch.randn(128, 10)
y = torch.sin(x[:, :1] * 2)
for epoch in range(20):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(head(backbone(x)), y)
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
