import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(10)


class HardGatedMLP(nn.Module):
    def __init__(self, d_in=8, width=16):
        super().__init__()
        self.value = nn.Linear(d_in, width)
        self.gate = nn.Linear(d_in, width)
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        open_ = self.gate(x) > 0  # BUG: non-differentiable-op
        h = torch.tanh(self.value(x)) * open_.float()
        return self.out(h)


class Trainer:
    def __init__(self, model, lr):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr)

    def fit(self, x, y, epochs):
        for _ in range(epochs):
            self.optimizer.zero_grad()
            loss = F.mse_loss(self.model(x), y)
            loss.backward()
            self.optimizer.step()
        return loss.item()


x = torch.randn(64, 8)
y = (x[:, :1] * x[:, 1:2]).sin()
print(Trainer(HardGatedMLP(), 0.01).fit(x, y, 25))
