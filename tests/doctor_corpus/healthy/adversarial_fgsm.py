import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(67)
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 2))
opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
X = torch.randn(128, 10)
Y = (X[:, 0] + X[:, 1] > 0).long()


def perturb(x, y, eps=0.1):
    x = x.clone().detach().requires_grad_(True)
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    return (x + eps * x.grad.sign()).detach()


for epoch in range(6):
    for x, y in zip(X.split(32), Y.split(32)):
        x_adv = perturb(x, y)
        opt.zero_grad()
        loss = 0.5 * F.cross_entropy(model(x), y) + 0.5 * F.cross_entropy(model(x_adv), y)
        loss.backward()
        opt.step()
    print(epoch, loss.item())
