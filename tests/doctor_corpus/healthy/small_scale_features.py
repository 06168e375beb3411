import torch
from torch import nn

torch.manual_seed(28)
# currents in ampere: all of the order of a few milli-ampere
current = torch.randn(128, 4) * 3e-3
label = (current[:, 0] > 0).float().unsqueeze(1)
model = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 16), nn.ELU(), nn.Linear(16, 1))
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(8):
    for x, y in zip(current.split(32), label.split(32)):
        opt.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(model(x), y)
        loss.backward()
        opt.step()
    print(epoch, loss.item())
