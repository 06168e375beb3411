import torch
from torch import nn

torch.manual_seed(1)


class LinearRecurrence(nn.Module):
    def __init__(self, size=12):
        super().__init__()
        self.inp = nn.Linear(3, size)
        self.W = nn.Parameter(torch.linalg.qr(torch.randn(size, size))[0] * 1.6)
        self.out = nn.Linear(size, 1)

    def forward(self, seq):
        h = torch.zeros(seq.size(0), self.W.size(0))
        for t in range(seq.size(1)):
            h = self.inp(seq[:, t]) + h @ self.W  # BUG: exploding-gradient
        return self.out(h).squeeze(-1)


model = LinearRecurrence()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for it in range(15):
    seq = torch.randn(16, 30, 3)
    target = seq[:, :, 0].mean(1)
    loss = nn.functional.huber_loss(model(seq), target)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(it, loss.item())
