import torch
from torch import nn

torch.manual_seed(11)


class QuantizedAE(nn.Module):
    def __init__(self, d=16, code=6, levels=4):
        super().__init__()
        self.levels = levels
        self.enc = nn.Linear(d, code)
        self.dec = nn.Sequential(nn.Linear(code, 24), nn.ReLU(), nn.Linear(24, d))

    def quantize(self, z):
        return torch.round(torch.sigmoid(z) * self.levels) / self.levels  # BUG: non-differentiable-op

    def forward(self, x):
        return self.dec(self.quantize(self.enc(x)))


model = QuantizedAE()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
data = torch.rand(128, 4) @ torch.rand(4, 16)
for step in range(30):
    x = data[torch.randint(0, 128, (32,))]
    loss = nn.functional.l1_loss(model(x), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
