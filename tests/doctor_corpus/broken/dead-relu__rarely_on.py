import torch
import torch.nn as nn


def init(layer):
    if isinstance(layer, nn.Linear):
        nn.init.kaiming_normal_(layer.weight)
        nn.init.constant_(layer.bias, -8.0 if layer.out_features == 48 else 0.0)


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(10, 32)
        self.second = nn.Linear(32, 48)
        self.out = nn.Linear(48, 1)
        self.apply(init)

    def forward(self, x):
        x = torch.relu(self.first(x))
        x = torch.relu(self.second(x))  # BUG: dead-relu
        return self.out(x)


torch.manual_seed(33)
X = torch.randn(400, 10)
Y = X.abs().sum(1, keepdim=True)
model = Regressor()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(4):
    for x, y in zip(X.split(50), Y.split(50)):
        opt.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        opt.step()
