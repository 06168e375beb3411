import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(32)


class Spectrum(nn.Module):
    def __init__(self):
        super().__init__()
        self.filters = nn.Linear(20, 8)
        self.head = nn.Linear(8, 2)

    def forward(self, wave):
        power = torch.exp(self.filters(wave))  # BUG: modified-in-place
        total = power.sum(1, keepdim=True)
        power[:, 0] = 0.0  # BUG: modified-in-place
        return self.head(power / total)


net = Spectrum()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for it in range(5):
    wave = torch.randn(16, 20)
    y = (wave.mean(1) > 0).long()
    loss = F.cross_entropy(net(wave), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(it, loss.item())
