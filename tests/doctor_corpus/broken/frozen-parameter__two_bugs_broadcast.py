import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 1))
model[2].requires_grad_(False)  # BUG: frozen-parameter
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.randn(40, 6)
y = x[:, 0] - x[:, 3]
for i in range(15):
    loss = ((model(x) - y) ** 2).mean()  # BUG: suspicious-broadcast
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
