"""A variational autoencoder squeezes digits into eight numbers, and draws new ones from noise.

    python examples/vae.py

The encoder gives a mean and a spread for each of the eight numbers; the decoder sees a draw from them. The
divergence pulls the draws towards the standard normal, so that noise is a valid code after training.

prints

    epoch 10   drawing 27.01   code 2.04 nats
    epoch 20   drawing 26.22   code 2.39 nats
    epoch 30   drawing 25.89   code 2.49 nats
    eight digits that nobody drew:
    ..:*##:.   .:*##:..     ...                              ....       .::        :*#.
    ..:*::..   .:****.     .*##:     .*##:       *##:      .:###*.     *###*      **..*.
     ..***:.   .::*#*.     :. .*     :.  ..     ..  ..      ::.:*.     #.  :      #.  :.
      .:**:.   ..:**:.     *:..:     .:..:.     ..  ..      :::::      ###*:      :###:
    ..:::::.   .:****.     .:***     .::*:       .**:      .:****.     :*::*      ::  *.
    ..:*::..   .::***.     ....*.    ..  ..      .  ..      ::::*.     :. .#      :.  *:
     ..*##:.   ..*##*.     :...*.    :.  .:     ..  ..      ::::*      ***:*      .****
       ....     ......      :**.      *##:       *##:       .:**.      .*#*         .:
    loss 34.83 -> 28.39
"""

import sys

from digits import make_digits, show

import pellucid as torch

nn, F = torch.nn, torch.nn.functional
CODE = 8


class Autoencoder(nn.Module):
    def __init__(self, width: int = 128):
        super().__init__()
        self.encode = nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 2 * CODE))
        self.decode = nn.Sequential(nn.Linear(CODE, width), nn.ReLU(), nn.Linear(width, 64))

    def forward(self, pictures):
        mean, log_variance = self.encode(pictures).chunk(2, 1)
        code = mean + (0.5 * log_variance).exp() * torch.randn_like(mean)
        return self.decode(code), mean, log_variance


def negative_evidence_bound(model, pictures):
    """Nats per picture: what the drawing costs, and what the code costs."""
    scores, mean, log_variance = model(pictures)
    drawing = F.binary_cross_entropy_with_logits(scores, pictures.flatten(1), reduction="sum")
    divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum()
    return drawing / len(pictures), divergence / len(pictures)


def train_epoch(model, optimizer, pictures) -> tuple[float, float]:
    drawing_total = divergence_total = 0.0
    for chosen in torch.randperm(len(pictures)).split(100):
        drawing, divergence = negative_evidence_bound(model, pictures[chosen])
        optimizer.zero_grad()
        (drawing + divergence).backward()
        optimizer.step()
        drawing_total += drawing.item() * len(chosen) / len(pictures)
        divergence_total += divergence.item() * len(chosen) / len(pictures)
    return drawing_total, divergence_total


def main() -> None:
    quick = "--quick" in sys.argv
    torch.manual_seed(0)
    pictures, _ = make_digits(1_000 if quick else 4_000, seed=1)
    model = Autoencoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    losses = []
    epochs = 5 if quick else 30
    for epoch in range(1, epochs + 1):
        drawing, divergence = train_epoch(model, optimizer, pictures)
        losses.append(drawing + divergence)
        if quick or epoch % 10 == 0:
            print(f"epoch {epoch:2}   drawing {drawing:.2f}   code {divergence:.2f} nats")
    with torch.no_grad():
        drawn = torch.sigmoid(model.decode(torch.randn(8, CODE)))
    darkest = drawn.amax(1, keepdim=True)
    print(f"eight digits that nobody drew:\n{show(drawn / darkest)}")
    print(f"loss {losses[0]:.2f} -> {losses[-1]:.2f}")


if __name__ == "__main__":
    main()
