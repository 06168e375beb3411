import torch
from torch import nn

torch.manual_seed(8)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(2, 24), nn.LeakyReLU(0.2), nn.Linear(24, 1))

    def forward(self, x):
        return torch.sigmoid(self.features(x))  # BUG: sigmoid-before-logits-loss


gen = nn.Sequential(nn.Linear(3, 24), nn.ReLU(), nn.Linear(24, 2))
disc = Discriminator()
g_opt = torch.optim.Adam(gen.parameters(), lr=1e-3, betas=(0.5, 0.999))
d_opt = torch.optim.Adam(disc.parameters(), lr=1e-3, betas=(0.5, 0.999))
adversarial = nn.BCEWithLogitsLoss()
for it in range(15):
    real = torch.randn(32, 2) * 0.5 + torch.tensor([2.0, -1.0])
    fake = gen(torch.randn(32, 3))
    d_loss = adversarial(disc(real), torch.ones(32, 1)) + adversarial(disc(fake.detach()), torch.zeros(32, 1))
    d_opt.zero_grad()
    d_loss.backward()
    d_opt.step()
    g_loss = adversarial(disc(fake), torch.ones(32, 1))
    g_opt.zero_grad()
    g_loss.backward()
    g_opt.step()
print(d_loss.item(), g_loss.item())
