import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class GRUModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(2, 12, batch_first=True)
        self.fc = nn.Linear(12, 1)

    def forward(self, x):
        out, _ = self.gru(x)
        return self.fc(out[:, -1])


model = GRUModel()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
series = torch.randn(64, 10, 2)
target = series[:, -1, :1]
for epoch in range(10):
    optimizer.zero_grad()
    loss = F.mse_loss(model(series), target)
    loss.backward()  # BUG: missing-step
    scheduler.step()
    print(epoch, loss.item())
