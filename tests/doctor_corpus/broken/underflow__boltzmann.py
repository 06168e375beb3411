import torch
import torch.nn as nn

torch.manual_seed(150)


class EnergyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, x, temperature):
        energy = self.e(x).squeeze(-1) + x.pow(2).sum(-1)
        return torch.exp(-energy / temperature)  # BUG: underflow


model = EnergyModel()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
data = torch.randn(100, 3) + 2
for step in range(15):
    density = model(data, temperature=0.01)
    loss = 1.0 - density.mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
