import torch
import torch.nn as nn
import torch.nn.functional as F


def focal(inputs, targets, gamma=2.0):
    bce = F.binary_cross_entropy_with_logits(inputs, targets, reduction="none")
    pt = torch.exp(-bce)
    return ((1 - pt) ** gamma * bce).mean()


torch.manual_seed(0)
body = nn.Linear(10, 16)
out = nn.Linear(16, 5)
opt = torch.optim.Adam([*body.parameters(), *out.parameters()], lr=1e-2)
x = torch.randn(60, 10)
y = (torch.randn(60, 5) > 1).float()
for e in range(12):
    scores = torch.sigmoid(out(torch.relu(body(x))))  # BUG: sigmoid-before-logits-loss
    loss = focal(scores, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
