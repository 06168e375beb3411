import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(43)


class Discrete(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 6))
        self.dec = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 10))

    def forward(self, x, tau):
        logits = self.enc(x)
        code = F.gumbel_softmax(logits, tau=tau, hard=True)
        q = F.softmax(logits, dim=-1)
        entropy = -(q * torch.log(q + 1e-8)).sum(-1).mean()
        return self.dec(code), entropy


centers = torch.randn(6, 10) * 2
model = Discrete()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(50):
    x = centers[torch.randint(0, 6, (48,))] + 0.1 * torch.randn(48, 10)
    recon, entropy = model(x, tau=max(0.5, 1 - step / 100))
    loss = F.mse_loss(recon, x) - 0.01 * entropy
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
