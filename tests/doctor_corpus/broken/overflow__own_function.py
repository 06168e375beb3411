import torch
from torch import nn
from torch.autograd import Function


class Growth(Function):
    @staticmethod
    def forward(ctx, x, rate):
        grown = torch.exp(rate * x)  # BUG: overflow
        ctx.save_for_backward(grown)
        ctx.rate = rate
        return torch.log1p(grown) / rate

    @staticmethod
    def backward(ctx, grad):
        (grown,) = ctx.saved_tensors
        return grad * grown / (1 + grown), None


class Demand(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(3, 12)
        self.out = nn.Linear(12, 1)

    def forward(self, x):
        return Growth.apply(self.out(torch.tanh(self.hidden(x))), 25.0)


torch.manual_seed(7)
model = Demand()
opt = torch.optim.Adam(model.parameters(), lr=0.05)
for step in range(40):
    x = torch.rand(32, 3)
    loss = (model(x) - 6 * x.sum(1, keepdim=True)).abs().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
