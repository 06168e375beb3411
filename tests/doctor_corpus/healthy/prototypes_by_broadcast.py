"""Prototype classification: all queries against all prototypes by broadcasting."""
import torch
from torch import nn


class Embed(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 8))

    def forward(self, x):
        return self.f(x)


def episode(ways=5, shots=4, queries=6):
    centres = torch.randn(ways, 12) * 1.5
    support = centres[:, None, :] + torch.randn(ways, shots, 12)
    query = centres[:, None, :] + torch.randn(ways, queries, 12)
    label = torch.arange(ways).repeat_interleave(queries)
    return support, query.reshape(-1, 12), label


def logits(net, support, query):
    prototypes = net(support).mean(dim=1)
    z = net(query)
    squared = z.pow(2).sum(1, keepdim=True) + prototypes.pow(2).sum(1)
    return -(squared - 2 * z @ prototypes.T)


torch.manual_seed(0)
net = Embed()
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
history = []
for it in range(80):
    support, query, label = episode()
    loss = nn.functional.cross_entropy(logits(net, support, query), label)
    opt.zero_grad()
    loss.backward()
    opt.step()
    history.append(loss.detach())
print(torch.stack(history[:10]).mean().item(), torch.stack(history[-10:]).mean().item())
