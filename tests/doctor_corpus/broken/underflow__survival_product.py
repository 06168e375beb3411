import torch
import torch.nn as nn

torch.manual_seed(16)


class Hazard(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 200))

    def forward(self, x):
        hazard = torch.sigmoid(self.net(x))
        survival = torch.prod(1 - hazard, dim=1)  # BUG: underflow
        return survival


model = Hazard()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
x = torch.randn(40, 4)
alive = (x[:, 0] > 0).float()
for epoch in range(20):
    optimizer.zero_grad()
    brier = ((model(x) - alive) ** 2).mean()
    brier.backward()
    optimizer.step()
    print(epoch, brier.item())
