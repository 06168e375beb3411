import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(96)


def make(depth):
    layers = []
    for i in range(depth):
        lin = nn.Linear(40, 40)
        nn.init.normal_(lin.weight, std=0.8)
        layers += [lin, nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(40, 5))


net = make(9)
opt = torch.optim.AdamW(net.parameters(), lr=1e-4)
x = torch.randn(48, 40)
y = torch.randint(0, 5, (48,))
for epoch in range(10):
    opt.zero_grad()
    logits = net(x)  # BUG: exploding-gradient
    loss = F.cross_entropy(logits, y)
    loss.backward()
    opt.step()
    print(epoch, loss.item())
