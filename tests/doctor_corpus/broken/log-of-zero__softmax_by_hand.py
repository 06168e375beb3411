"""Cross-entropy by hand: probabilities that become exactly zero."""
import torch
from torch import nn


class Head(nn.Module):
    def __init__(self, d, c):
        super().__init__()
        self.w = nn.Parameter(torch.randn(d, c) * 30)

    def forward(self, x):
        z = x @ self.w
        e = torch.exp(z - z.max(dim=1, keepdim=True).values)
        return e / e.sum(dim=1, keepdim=True)


def negative_log_likelihood(probabilities, target):
    picked = probabilities.gather(1, target[:, None])
    return -torch.log(picked).mean()  # BUG: log-of-zero


torch.manual_seed(14)
head = Head(10, 6)
opt = torch.optim.SGD(head.parameters(), lr=0.5)
for step in range(12):
    x = torch.randn(40, 10)
    t = torch.randint(0, 6, (40,))
    loss = negative_log_likelihood(head(x), t)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
