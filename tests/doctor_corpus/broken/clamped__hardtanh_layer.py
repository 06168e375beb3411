import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(2)


class QuantReady(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(5, 20)
        self.l2 = nn.Linear(20, 1)
        self.l1.weight.data.uniform_(0.5, 1.5)
        self.l1.bias.data.fill_(8.0)

    def forward(self, x):
        pre = self.l1(x)
        act = F.hardtanh(pre, -1.0, 1.0)  # BUG: clamped
        return self.l2(act)


x = torch.rand(64, 5)
y = x.mean(1, keepdim=True)
model = QuantReady()
optim = torch.optim.SGD(model.parameters(), lr=0.02)
for e in range(20):
    optim.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    optim.step()
print(loss.item())
