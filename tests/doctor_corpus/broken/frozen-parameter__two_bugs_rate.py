import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(221)
body = nn.Sequential(nn.Linear(8, 16), nn.ReLU())
head = nn.Linear(16, 1)
for p in body.parameters():
    p.requires_grad = False  # BUG: frozen-parameter
opt = torch.optim.SGD(list(body.parameters()) + list(head.parameters()), lr=1e-9)  # BUG: learning-rate-too-low
x = torch.randn(80, 8)
y = x.sum(1, keepdim=True)
for epoch in range(30):
    loss = F.mse_loss(head(body(x)), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
