import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(2)


def block(width):
    layer = nn.Linear(width, width)
    nn.init.normal_(layer.weight, std=0.01)
    nn.init.zeros_(layer.bias)
    return layer


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(10, 40)
        self.b1, self.b2, self.b3, self.b4, self.b5, self.b6 = [block(40) for _ in range(6)]
        self.head = nn.Linear(40, 1)

    def forward(self, x):
        x = torch.tanh(self.stem(x))
        for b in (self.b1, self.b2, self.b3, self.b4, self.b5, self.b6):
            h = b(x)  # BUG: vanishing-gradient
            x = torch.tanh(h)
        return self.head(x)


net = Mlp()
opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
x = torch.randn(64, 10)
y = x[:, :1] - x[:, 1:2]
for epoch in range(20):
    loss = F.mse_loss(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
