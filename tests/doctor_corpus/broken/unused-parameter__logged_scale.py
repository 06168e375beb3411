import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1))
        self.scale = nn.Parameter(torch.tensor(1.5))  # BUG: unused-parameter

    def forward(self, x):
        return 1.5 * self.body(x)


torch.manual_seed(0)
net = Net()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
history = []
for step in range(30):
    x = torch.randn(32, 5)
    loss = (net(x) - x[:, :1]).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    logs = {"loss": loss.item(), "scale": net.scale.item()}
    history.append(logs)
    if step % 10 == 0:
        print(f"{step}: scale {net.scale.item():.3f} {logs}")
