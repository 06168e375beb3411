import torch
import torch.nn as nn
from torch.func import functional_call, grad_and_value

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 1))
params = {name: p.detach().clone() for name, p in net.named_parameters()}
X = torch.randn(64, 3)
Y = X.sum(1, keepdim=True)


def loss_of(p, x, y):
    return nn.functional.mse_loss(functional_call(net, p, (x,)), y)


step = grad_and_value(loss_of)
for i in range(40):
    grads, loss = step(params, X, Y)
    params = {name: p - 0.05 * grads[name] for name, p in params.items()}
print(loss.item())
