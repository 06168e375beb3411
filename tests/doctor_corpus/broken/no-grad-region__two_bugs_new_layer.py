"""DDPM on a two-dimensional ring, with a learned embedding of the time step."""
import torch
from torch import nn

STEPS = 50


class Denoiser(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.time = nn.Embedding(STEPS, width)
        self.mix = nn.Linear(width, width)
        self.inp = nn.Linear(2, width)
        self.hidden = nn.Sequential(nn.SiLU(), nn.Linear(width, width), nn.SiLU())
        self.out = nn.Linear(width, 2)

    @torch.no_grad()
    def embed(self, t):
        code = self.time(t)  # BUG: no-grad-region
        return self.mix(torch.sin(code))  # BUG: no-grad-region

    def forward(self, x, t):
        return self.out(self.hidden(self.inp(x) + self.embed(t)))


def ring(n):
    angle = torch.rand(n) * 6.2832
    return torch.stack([angle.cos(), angle.sin()], dim=1) + 0.05 * torch.randn(n, 2)


def schedule():
    betas = torch.linspace(1e-4, 0.1, STEPS)
    return torch.cumprod(1 - betas, dim=0)


def main():
    torch.manual_seed(1)
    alpha_bar = schedule()
    model = Denoiser()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)

    # a better-behaved start: the last layer predicts small noise
    model.out = nn.Linear(48, 2)  # BUG: stale-optimizer
    nn.init.normal_(model.out.weight, std=0.05)

    for it in range(50):
        x0 = ring(128)
        t = torch.randint(0, STEPS, (128,))
        noise = torch.randn_like(x0)
        a = alpha_bar[t].unsqueeze(1)
        noisy = a.sqrt() * x0 + (1 - a).sqrt() * noise
        loss = (model(noisy, t) - noise).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it % 10 == 0:
            print(it, round(loss.item(), 4))


main()
