import torch
import torch.nn as nn

torch.manual_seed(0)


class Bottleneck(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 5))
        self.decoder = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 20))

    def forward(self, x):
        code = self.encoder(x)
        code = code.detach()  # BUG: detached
        return self.decoder(code), code


data = torch.rand(200, 20)
model = Bottleneck()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
loss_fn = nn.MSELoss()
for epoch in range(5):
    for i in range(0, 200, 40):
        x = data[i:i + 40]
        optimizer.zero_grad()
        recon, _ = model(x)
        loss = loss_fn(recon, x)
        loss.backward()
        optimizer.step()
    print(epoch, float(loss))
