import torch
import torch.nn as nn

torch.manual_seed(25)
T = 50
betas = torch.linspace(1e-4, 0.05, T)
alpha_bar = torch.cumprod(1 - betas, dim=0)


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = nn.Embedding(T, 16)
        self.inp = nn.Linear(2, 48)
        self.mix = nn.Linear(16, 48)
        self.out = nn.Sequential(nn.SiLU(), nn.Linear(48, 48), nn.SiLU(), nn.Linear(48, 2))

    def forward(self, x, t):
        return self.out(self.inp(x) + self.mix(self.time(t)))


model = Denoiser()
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(60):
    angle = torch.rand(128) * 6.28
    x0 = torch.stack([angle.cos(), angle.sin()], dim=1)
    t = torch.randint(0, T, (128,))
    noise = torch.randn_like(x0)
    a = alpha_bar[t].unsqueeze(1)
    xt = a.sqrt() * x0 + (1 - a).sqrt() * noise
    loss = (model(xt, t) - noise).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
