import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(6)


class BinaryLayer(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.weight = nn.Parameter(0.1 * torch.randn(n_out, n_in))
        self.bias = nn.Parameter(torch.zeros(n_out))

    def forward(self, x):
        binary = torch.sign(self.weight)  # BUG: non-differentiable-op
        return F.linear(x, binary, self.bias)


model = nn.Sequential(BinaryLayer(12, 24), nn.BatchNorm1d(24), nn.Hardtanh(), nn.Linear(24, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.randn(90, 12)
y = x[:, :3].argmax(1)
for epoch in range(12):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
