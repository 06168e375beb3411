import torch
from torch import nn

torch.manual_seed(36)


class Churn(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Sequential(nn.Linear(7, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, x):
        return self.fc(x).squeeze(-1)


x = torch.randn(100, 7)
churn_percent = (torch.rand(100) * 100).round()
model = Churn()
criterion = nn.BCEWithLogitsLoss()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(20):
    opt.zero_grad()
    out = model(x)
    loss = criterion(out, churn_percent)  # BUG: wrong-target
    loss.backward()
    opt.step()
    print(epoch, loss.item())
