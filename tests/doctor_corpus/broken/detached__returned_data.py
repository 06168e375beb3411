import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(20, 16), nn.ReLU(), nn.Linear(16, 4))

    def forward(self, x):
        return self.body(x)


class AutoEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.decoder = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 20))

    def encode(self, x):
        code = self.encoder(x)
        return code.data  # BUG: detached

    def forward(self, x):
        return self.decoder(self.encode(x))


torch.manual_seed(0)
factors = torch.randn(256, 4)
data = factors @ torch.randn(4, 20) + 0.05 * torch.randn(256, 20)
model = AutoEncoder()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(data), batch_size=64, shuffle=True)
for epoch in range(12):
    total = 0.0
    for (x,) in loader:
        loss = nn.functional.mse_loss(model(x), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(epoch, total / len(loader))
print(model.encoder.body[0].weight.grad)
