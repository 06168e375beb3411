import torch
import torch.nn as nn
from torch.func import functional_call, grad_and_value

torch.manual_seed(2)
net = nn.Linear(2, 3)
params = {name: p.detach() for name, p in net.named_parameters()}
x = torch.randn(60, 2)
y = (x[:, 0] > 0).long()
allowed = torch.tensor([True, False, True])


def nll(p, x, y):
    scores = functional_call(net, p, (x,)).masked_fill(~allowed, float("-inf"))
    return -torch.log(scores.softmax(-1))[torch.arange(len(y)), y].mean()  # BUG: log-of-zero


step = grad_and_value(nll)
for it in range(12):
    grads, loss = step(params, x, y)
    params = {name: p - 0.1 * grads[name] for name, p in params.items()}
    print(it, loss.item())
