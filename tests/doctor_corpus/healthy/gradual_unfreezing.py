import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(61)
body = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU())
head = nn.Linear(24, 3)
for p in body.parameters():
    p.requires_grad_(False)
opt = torch.optim.Adam(head.parameters(), lr=1e-2)
x = torch.randn(90, 8)
y = x[:, :3].argmax(1)
for epoch in range(30):
    if epoch == 10:
        for p in body.parameters():
            p.requires_grad_(True)
        opt.add_param_group({"params": list(body.parameters()), "lr": 3e-3})
    loss = F.cross_entropy(head(body(x)), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
