import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(192)


class AE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 4))
        self.dec = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 12))

    def forward(self, x):
        return self.dec(self.enc(x))


ae = AE()
optimizer = torch.optim.Adam(ae.parameters(), lr=0.8, weight_decay=1e-5)  # BUG: learning-rate-too-high
data = torch.randn(160, 4) @ torch.randn(4, 12)
for epoch in range(8):
    for batch in data.split(40):
        loss = F.mse_loss(ae(batch), batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
