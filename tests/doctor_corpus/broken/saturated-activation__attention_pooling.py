"""Attention pooling without the 1/sqrt(d) scale"""
import torch
import torch.nn as nn


class AttnPool(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.key = nn.Linear(d, d, bias=False)
        self.query = nn.Parameter(torch.randn(d) * 12)
        self.val = nn.Linear(d, d)
        self.cls = nn.Linear(d, 3)

    def forward(self, x):
        score = self.key(x) @ self.query
        att = torch.softmax(score, dim=1)  # BUG: saturated-activation
        return self.cls((att.unsqueeze(-1) * self.val(x)).sum(1))


torch.manual_seed(5)
net = AttnPool(64)
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
x = torch.randn(48, 10, 64) * 3
y = torch.randint(0, 3, (48,))
for step in range(15):
    loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 5 == 0:
        print(step, loss.item())
