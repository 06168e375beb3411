"""Toy sequence autoencoder."""
import torch
from torch import nn, optim

torch.manual_seed(1)


class Decoder(nn.Module):
    def __init__(self, latent, hidden, out):
        super().__init__()
        self.inp = nn.Linear(latent, hidden)
        self.block_a = nn.Linear(hidden, hidden)
        self.block_b = nn.Linear(hidden, hidden)  # BUG: unused-parameter
        self.out = nn.Linear(hidden, out)

    def forward(self, z):
        h = torch.tanh(self.inp(z))
        h = h + torch.tanh(self.block_a(h))
        h = h + torch.tanh(self.block_a(h))
        return self.out(h)


class AutoEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 4))
        self.decoder = Decoder(4, 16, 12)

    def forward(self, x):
        return self.decoder(self.encoder(x))


def main():
    basis = torch.randn(4, 12)
    data = torch.randn(128, 4) @ basis
    net = AutoEncoder()
    opt = optim.Adam(net.parameters(), lr=0.01)
    for step in range(40):
        batch = data[torch.randint(0, 128, (32,))]
        loss = ((net(batch) - batch) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print("final", loss.item())


if __name__ == "__main__":
    main()
