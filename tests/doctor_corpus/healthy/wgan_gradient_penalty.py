import torch
import torch.nn as nn

torch.manual_seed(1)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 32), nn.SiLU(), nn.Linear(32, 32), nn.SiLU(), nn.Linear(32, 1))

    def forward(self, x):
        return self.net(x)


def gradient_penalty(critic, real, fake):
    eps = torch.rand(real.size(0), 1)
    mixed = (eps * real + (1 - eps) * fake).requires_grad_(True)
    score = critic(mixed)
    (grad,) = torch.autograd.grad(score.sum(), mixed, create_graph=True)
    return ((grad.norm(2, dim=1) - 1) ** 2).mean()


generator = nn.Sequential(nn.Linear(3, 24), nn.ReLU(), nn.Linear(24, 2))
critic = Critic()
g_opt = torch.optim.Adam(generator.parameters(), lr=1e-3)
c_opt = torch.optim.Adam(critic.parameters(), lr=1e-3)
for it in range(12):
    for _ in range(3):
        real = torch.randn(32, 2) + torch.tensor([3.0, 0.0])
        with torch.no_grad():
            fake = generator(torch.randn(32, 3))
        loss = critic(fake).mean() - critic(real).mean() + 10 * gradient_penalty(critic, real, fake)
        c_opt.zero_grad()
        loss.backward()
        c_opt.step()
    g_loss = -critic(generator(torch.randn(32, 3))).mean()
    g_opt.zero_grad()
    g_loss.backward()
    g_opt.step()
print(loss.item(), g_loss.item())
