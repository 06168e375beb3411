import torch
from torch import nn


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.LSTM(1, 20, batch_first=True)
        self.head = nn.Linear(20, 1)

    def forward(self, series):
        states, _ = self.encoder(series)
        return self.head(states[:, -1])


def build_optimizer(model):
    encoder_parameters = model.encoder.parameters()
    count = sum(p.numel() for p in encoder_parameters)
    print(f"encoder has {count} parameters")
    groups = [
        {"params": encoder_parameters, "lr": 1e-3},
        {"params": model.head.parameters(), "lr": 1e-2},
    ]
    return torch.optim.AdamW(groups, weight_decay=1e-4)  # BUG: not-in-optimizer


torch.manual_seed(0)
phase = torch.rand(128, 1) * 6.28
t = torch.arange(13).float() * 0.4
series = torch.sin(phase + t).unsqueeze(-1)
x, y = series[:, :-1], series[:, -1]
model = Forecaster()
optimizer = build_optimizer(model)
for epoch in range(40):
    loss = nn.functional.smooth_l1_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if epoch % 10 == 0:
        print(epoch, loss.item())
