"""A GAN whose discriminator learns; the generator's rate was meant to be 1e-3."""
import torch
from torch import nn
import torch.nn.functional as F


def network(n_in, n_out):
    return nn.Sequential(nn.Linear(n_in, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.LeakyReLU(0.2), nn.Linear(32, n_out))


class GAN:
    def __init__(self):
        self.generator, self.discriminator = network(4, 2), network(2, 1)
        self.of_discriminator = torch.optim.Adam(self.discriminator.parameters(), lr=2e-3)

        self.of_generator = torch.optim.Adam(self.generator.parameters(), lr=1e-9)  # BUG: learning-rate-too-low

    def real(self, n=64):
        return torch.randn(n, 2) * 0.2 + torch.tensor([1.5, -1.0])

    def fake(self, n=64):
        return self.generator(torch.randn(n, 4))

    def learn_to_tell(self):
        yes, no = self.discriminator(self.real()), self.discriminator(self.fake().detach())
        loss = F.softplus(-yes).mean() + F.softplus(no).mean()
        self.of_discriminator.zero_grad()
        loss.backward()
        self.of_discriminator.step()
        return loss.item()

    def learn_to_fool(self):
        loss = F.softplus(-self.discriminator(self.fake())).mean()
        self.of_generator.zero_grad()
        loss.backward()
        self.of_generator.step()
        return loss.item()


torch.manual_seed(0)
gan = GAN()
for step in range(60):
    told, fooled = gan.learn_to_tell(), gan.learn_to_fool()
    if step % 20 == 0:
        print(step, told, fooled)
