import torch
from torch import nn

torch.manual_seed(200)


class Masker(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 1, 1), nn.Tanh())

    def forward(self, x):
        return self.net(x)


model = Masker()
criterion = nn.BCELoss()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for it in range(5):
    img = torch.randn(4, 1, 6, 6)
    mask = (img > 0).float()
    out = model(img)
    loss = criterion(out, mask)  # BUG: loss-input-mismatch
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(it, loss.item())
