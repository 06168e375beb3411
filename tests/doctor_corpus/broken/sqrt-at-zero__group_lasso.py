import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(20)


class SparseLinear(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(n_out, n_in))
        self.bias = nn.Parameter(torch.zeros(n_out))

    def forward(self, x):
        return F.linear(x, self.weight, self.bias)

    def penalty(self):
        return (self.weight ** 2).sum(0).sqrt().sum()  # BUG: sqrt-at-zero


model = SparseLinear(10, 3)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(80, 10)
y = x[:, :3].argmax(1)
for epoch in range(8):
    loss = F.cross_entropy(model(x), y) + 1e-3 * model.penalty()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(epoch, loss.item())
