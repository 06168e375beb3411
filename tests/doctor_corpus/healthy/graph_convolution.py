import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(216)


class GCN(nn.Module):
    def __init__(self, a):
        super().__init__()
        deg = a.sum(1)
        self.register_buffer("a_hat", a / torch.sqrt(deg[:, None] * deg[None, :]))
        self.w1 = nn.Linear(6, 16, bias=False)
        self.w2 = nn.Linear(16, 2, bias=False)

    def forward(self, x):
        h = F.dropout(F.relu(self.a_hat @ self.w1(x)), 0.2, self.training)
        return self.a_hat @ self.w2(h)


n = 40
label = (torch.arange(n) >= n // 2).long()
same = label[:, None] == label[None, :]
adj = (torch.rand(n, n) < torch.where(same, 0.3, 0.03)).float()
adj = ((adj + adj.t()) > 0).float() + torch.eye(n)
adj = adj.clamp(max=1)
gcn = GCN(adj)
opt = torch.optim.Adam(gcn.parameters(), lr=1e-2, weight_decay=5e-4)
train = torch.rand(n) < 0.5
x = torch.randn(n, 6) + 0.5 * label[:, None]
for epoch in range(40):
    gcn.train()
    loss = F.cross_entropy(gcn(x)[train], label[train])
    opt.zero_grad()
    loss.backward()
    opt.step()
gcn.eval()
print(loss.item(), (gcn(x).argmax(1) == label).float().mean().item())
