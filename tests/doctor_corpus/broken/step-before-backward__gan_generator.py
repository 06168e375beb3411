"""GAN on a one-dimensional mixture."""
import torch
import torch.nn as nn

torch.manual_seed(0)
bce = nn.BCEWithLogitsLoss()


def net(n_in, n_out):
    return nn.Sequential(nn.Linear(n_in, 24), nn.LeakyReLU(0.2), nn.Linear(24, 24), nn.LeakyReLU(0.2), nn.Linear(24, n_out))


G, D = net(4, 1), net(1, 1)
opt_g = torch.optim.Adam(G.parameters(), lr=1e-3, betas=(0.5, 0.99))
opt_d = torch.optim.Adam(D.parameters(), lr=1e-3, betas=(0.5, 0.99))


def real(n):
    return torch.where(torch.rand(n, 1) < 0.5, -1.0, 1.0) + 0.1 * torch.randn(n, 1)


def discriminator_step(n=64):
    fake = G(torch.randn(n, 4)).detach()
    loss = bce(D(real(n)), torch.ones(n, 1)) + bce(D(fake), torch.zeros(n, 1))
    opt_d.zero_grad()
    loss.backward()
    opt_d.step()
    return loss.item()


def generator_step(n=64):
    loss = bce(D(G(torch.randn(n, 4))), torch.ones(n, 1))
    opt_g.step()  # BUG: step-before-backward
    opt_g.zero_grad()
    loss.backward()
    return loss.item()


for it in range(30):
    d, g = discriminator_step(), generator_step()
    if it % 10 == 0:
        print(it, d, g)
