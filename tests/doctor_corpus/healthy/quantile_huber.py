import torch
from torch import nn

torch.manual_seed(72)


class Quantiles(nn.Module):
    def __init__(self, q):
        super().__init__()
        self.register_buffer("q", torch.tensor(q))
        self.net = nn.Sequential(nn.Linear(2, 24), nn.ReLU(), nn.Linear(24, len(q)))

    def forward(self, x):
        return self.net(x)

    def loss(self, pred, y):
        err = y.unsqueeze(1) - pred
        return torch.maximum(self.q * err, (self.q - 1) * err).mean()


def qr_dqn(pred, target, taus):
    u = target[:, None, :] - pred[:, :, None]
    return (torch.abs(taus[None, :, None] - (u.detach() < 0).float()) * u.abs()).mean()


model = Quantiles([0.1, 0.5, 0.9])
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.randn(160, 2)
y = x[:, 0] + 0.3 * torch.randn(160)
for epoch in range(10):
    for a, b in zip(x.split(40), y.split(40)):
        pred = model(a)
        loss = model.loss(pred, b) + 0.1 * qr_dqn(pred, b.unsqueeze(1).expand(-1, 3), model.q)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
