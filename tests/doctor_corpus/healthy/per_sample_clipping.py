import torch
import torch.nn as nn
from torch.func import functional_call, grad, vmap

torch.manual_seed(0)
net = nn.Linear(5, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
X = torch.randn(32, 5)
Y = (X[:, 0] > 0).long()


def loss_of_one(p, x, y):
    return nn.functional.cross_entropy(functional_call(net, p, (x[None],)), y[None])


per_sample = vmap(grad(loss_of_one), in_dims=(None, 0, 0))
for i in range(15):
    frozen = {name: p.detach() for name, p in net.named_parameters()}
    grads = per_sample(frozen, X, Y)
    norms = sum(g.flatten(1).pow(2).sum(1) for g in grads.values()).sqrt()
    scale = (1 / norms).clamp(max=1)
    for name, p in net.named_parameters():
        p.grad = (grads[name] * scale.view(-1, *[1] * (grads[name].dim() - 1))).mean(0)
    opt.step()

for i in range(10):  # then as usual
    loss = nn.functional.cross_entropy(net(X), Y)
    opt.zero_grad()
    loss.backward()
    opt.step()
