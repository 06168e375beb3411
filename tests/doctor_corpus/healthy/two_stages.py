import torch
import torch.nn as nn

# two stages: first the head, then everything
torch.manual_seed(0)
body = nn.Sequential(nn.Linear(8, 24), nn.ReLU())
head = nn.Linear(24, 3)
x = torch.randn(80, 8)
y = x[:, :3].argmax(1)
body.requires_grad_(False)
opt = torch.optim.Adam(head.parameters(), lr=1e-2)
for i in range(12):
    loss = nn.functional.cross_entropy(head(body(x)), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
body.requires_grad_(True)
opt = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=1e-3)
for i in range(12):
    loss = nn.functional.cross_entropy(head(body(x)), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
