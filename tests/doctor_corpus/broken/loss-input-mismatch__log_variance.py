import torch
from torch import nn


class MeanVariance(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 32), nn.Tanh())
        self.mean = nn.Linear(32, 1)
        self.log_var = nn.Linear(32, 1)

    def forward(self, x):
        h = self.body(x)
        return self.mean(h), self.log_var(h)


torch.manual_seed(0)
x = torch.rand(200, 2)
noise = 0.1 + x[:, :1]
y = x.sum(dim=1, keepdim=True) + noise * torch.randn(200, 1)
model = MeanVariance()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
criterion = nn.GaussianNLLLoss()
for epoch in range(20):
    for i in range(0, 200, 50):
        mean, log_variance = model(x[i:i + 50])
        loss = criterion(mean, y[i:i + 50], log_variance)  # BUG: loss-input-mismatch
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if epoch % 5 == 0:
        print(epoch, loss.item())
