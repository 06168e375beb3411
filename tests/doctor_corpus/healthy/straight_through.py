import torch
from torch import nn

torch.manual_seed(33)


class BinaryCode(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(10, 12)
        self.dec = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, x):
        soft = torch.sigmoid(self.enc(x))
        hard = (soft > 0.5).float()
        code = soft + (hard - soft).detach()
        return self.dec(code)


data = torch.randn(160, 4) @ torch.randn(4, 10)
model = BinaryCode()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(12):
    for x in data.split(40):
        loss = nn.functional.mse_loss(model(x), x)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
