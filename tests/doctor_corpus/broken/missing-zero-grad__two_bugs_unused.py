import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Residual(nn.Module):
    def __init__(self, d=10):
        super().__init__()
        self.a = nn.Linear(d, d)
        self.b = nn.Linear(d, d)
        self.norm = nn.LayerNorm(d)  # BUG: unused-parameter

    def forward(self, x):
        return x + self.b(F.gelu(self.a(x)))


model = nn.Sequential(Residual(), Residual(), nn.Linear(10, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(64, 10)
y = x.sin().sum(1, keepdim=True)
for step in range(30):
    loss = F.mse_loss(model(x), y)
    loss.backward()  # BUG: missing-zero-grad
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
