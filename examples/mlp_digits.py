"""A network of two layers learns to read digits of 8 × 8 pixels.

    python examples/mlp_digits.py

prints

    the first eight: [5, 9, 4, 8, 3, 3, 1, 1]
      .                                                     *:*#      .  *
       :*:::       *##        #      .###         *###.         *       *:         ..*
       ::      .  .   *      *#      *   #  .         *         .        :          ##.
       :#**    .. *.  *     # *.     #   #            *.     **:  .      :           #.
           *       :##*    #  #.      ###          *##.    .    *.       :           *. .
           *       .  *    #**#*     #   #            :.        #        :           #
       :   *          *      .#      #   #            *:    :**#      . :*:          *. .
        .:*        **#        *       ###        .**##.                             ###.
    epoch  1   loss 1.349
    epoch  2   loss 0.263
    epoch  3   loss 0.118
    epoch  4   loss 0.078
    epoch  5   loss 0.054
    epoch  6   loss 0.043
    epoch  7   loss 0.033
    epoch  8   loss 0.025
    epoch  9   loss 0.022
    epoch 10   loss 0.017
    accuracy on unseen digits: 99.3%
"""

import sys

from digits import make_digits, show

import pellucid as torch

nn = torch.nn


def accuracy(model, pictures, labels) -> float:
    with torch.no_grad():
        return (model(pictures).argmax(1) == labels).float().mean().item()


def train(model, pictures, labels, epochs: int) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    loss_function = nn.CrossEntropyLoss()
    data = torch.utils.data.TensorDataset(pictures, labels)
    for epoch in range(1, epochs + 1):
        total = 0.0
        for some_pictures, some_labels in torch.utils.data.DataLoader(data, batch_size=50, shuffle=True):
            loss = loss_function(model(some_pictures), some_labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(some_labels)
        print(f"epoch {epoch:2}   loss {total / len(labels):.3f}")


def main() -> None:
    quick = "--quick" in sys.argv
    torch.manual_seed(0)
    pictures, labels = make_digits(1_000 if quick else 4_000, seed=1)
    unseen_pictures, unseen_labels = make_digits(500 if quick else 1_000, seed=2)
    print(f"the first eight: {labels[:8].tolist()}\n{show(pictures[:8])}")

    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    train(model, pictures, labels, epochs=5 if quick else 10)
    print(f"accuracy on unseen digits: {accuracy(model, unseen_pictures, unseen_labels):.1%}")


if __name__ == "__main__":
    main()
