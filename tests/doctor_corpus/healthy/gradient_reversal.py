import torch
import torch.nn as nn


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, lam):
        ctx.lam = lam
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return -ctx.lam * g, None


torch.manual_seed(0)
feat = nn.Sequential(nn.Linear(6, 16), nn.ReLU())
cls, dom = nn.Linear(16, 3), nn.Linear(16, 2)
opt = torch.optim.Adam([*feat.parameters(), *cls.parameters(), *dom.parameters()], lr=1e-3)
for i in range(15):
    xs, ys = torch.randn(20, 6), torch.randint(0, 3, (20,))
    xt = torch.randn(20, 6) + 0.5
    f = feat(torch.cat([xs, xt]))
    d = dom(Reverse.apply(f, 0.3))
    lab = torch.cat([torch.zeros(20), torch.ones(20)]).long()
    loss = nn.functional.cross_entropy(cls(f[:20]), ys) + nn.functional.cross_entropy(d, lab)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
