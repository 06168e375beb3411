"""A forger and a judge: the generator learns to place points on a ring of eight clusters that it never sees.

    python examples/gan.py

Trained longer, from about 3 000 rounds on, it loses a cluster again (7 of 8): such games do not simply converge.

prints

    round   400   distance to a cluster 0.560   clusters found 7 of 8
    round   800   distance to a cluster 0.405   clusters found 8 of 8
    round  1200   distance to a cluster 0.340   clusters found 8 of 8
    round  1600   distance to a cluster 0.270   clusters found 8 of 8
    round  2000   distance to a cluster 0.246   clusters found 8 of 8
    distance 1.81 -> 0.25
"""

import math
import sys

import pellucid as torch

nn, F = torch.nn, torch.nn.functional
CLUSTERS, RADIUS, SPREAD = 8, 2.0, 0.1
NOISE, BATCH = 4, 128


def network(inputs: int, outputs: int):
    width = 64
    return nn.Sequential(
        nn.Linear(inputs, width),
        nn.LeakyReLU(0.2),
        nn.Linear(width, width),
        nn.LeakyReLU(0.2),
        nn.Linear(width, outputs),
    )


def centres():
    angles = torch.arange(CLUSTERS) * (2 * math.pi / CLUSTERS)
    return RADIUS * torch.stack([angles.cos(), angles.sin()], 1)


def true_points():
    return centres()[torch.randint(0, CLUSTERS, (BATCH,))] + SPREAD * torch.randn(BATCH, 2)


def round_of_both(forger, judge, forger_optimizer, judge_optimizer) -> None:
    real, forged = true_points(), forger(torch.randn(BATCH, NOISE))
    # softplus(-score) is -log of the probability "true", softplus(score) of "forged".
    judge_loss = F.softplus(-judge(real)).mean() + F.softplus(judge(forged.detach())).mean()
    judge_optimizer.zero_grad()
    judge_loss.backward()
    judge_optimizer.step()

    forger_loss = F.softplus(-judge(forged)).mean()
    forger_optimizer.zero_grad()
    forger_loss.backward()
    forger_optimizer.step()


def quality(forger) -> tuple[float, int]:
    """How far forged points are from the nearest centre on average, and how many clusters get their share."""
    with torch.no_grad():
        distances = torch.cdist(forger(torch.randn(1_000, NOISE)), centres())
    nearest = distances.argmin(1)
    close = distances.min(1).values < 5 * SPREAD
    counts = torch.bincount(nearest[close], minlength=CLUSTERS)
    return distances.min(1).values.mean().item(), int((counts > 1_000 / CLUSTERS / 4).sum())


def main() -> None:
    quick = "--quick" in sys.argv
    torch.manual_seed(0)
    forger, judge = network(NOISE, 2), network(2, 1)
    forger_optimizer = torch.optim.Adam(forger.parameters(), lr=1e-3, betas=(0.5, 0.9))
    judge_optimizer = torch.optim.Adam(judge.parameters(), lr=1e-3, betas=(0.5, 0.9))
    first, _ = quality(forger)
    rounds = 300 if quick else 2_000
    for count in range(1, rounds + 1):
        round_of_both(forger, judge, forger_optimizer, judge_optimizer)
        if count % (rounds // 5) == 0:
            distance, clusters = quality(forger)
            print(f"round {count:5}   distance to a cluster {distance:.3f}   clusters found {clusters} of {CLUSTERS}")
    print(f"distance {first:.2f} -> {distance:.2f}")


if __name__ == "__main__":
    main()
