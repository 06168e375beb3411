"""Measure the teaching engine against micrograd, on the training of micrograd's own demo.

    PYTHONPATH=path/to/micrograd python bench/scalar.py [ROUNDS]

The demo: 100 points of two moons, an MLP of 16, 16 and 1 neurons, a margin loss over all points with a penalty on the
weights, plain gradient descent. The same program runs on both engines from the same weights; rounds take turns, one
step each, and the best of each counts: noise on a shared machine only ever adds time. What a step leaves behind for the
garbage collector (micrograd's graphs are full of cycles) is collected before the next, so that each engine pays for
its own only. The goal is 2.
"""

import gc
import random
import sys
import time
from importlib import import_module

from pellucid.scalar import Value, nn
from pellucid.utils.data.datasets import moons

GOAL, ALPHA = 2.0, 1e-4


def loss_of(value, model, points, labels):
    """The margin loss of all points and the penalty, as the demo computes them."""
    scores = [model([value(x) for x in point]) for point in points]
    losses = [(1 + -label * score).relu() for label, score in zip(labels, scores, strict=True)]
    return sum(losses) * (1.0 / len(losses)) + ALPHA * sum(p * p for p in model.parameters())


def trainer(value, network, points, labels):
    """A function that does one step of training and returns the loss before it."""
    random.seed(1337)
    model = network(2, [16, 16, 1])

    def step() -> float:
        loss = loss_of(value, model, points, labels)
        model.zero_grad()
        loss.backward()
        for p in model.parameters():
            p.data -= 0.1 * p.grad
        return loss.data

    return step


def timed(step) -> tuple[float, float]:
    gc.collect()
    began = time.perf_counter()
    loss = step()
    return time.perf_counter() - began, loss


def measure(theirs, ours, rounds: int) -> tuple[float, float]:
    """The best seconds per step of both; the losses must agree all the way, or the programs are not the same."""
    best = [float("inf"), float("inf")]
    for _ in range(rounds):
        results = [timed(step) for step in (theirs, ours)]
        best = [min(old, seconds) for old, (seconds, _) in zip(best, results, strict=True)]
        (_, wanted), (_, given) = results
        assert abs(wanted - given) <= 1e-9 * abs(wanted), f"micrograd's loss is {wanted}, ours {given}"
    return best[0], best[1]


def main() -> int:
    try:
        their_value, their_nn = import_module("micrograd.engine").Value, import_module("micrograd.nn")
    except ImportError:
        print("skipped: micrograd is not installed (pip install micrograd, or name a copy of it in PYTHONPATH)")
        return 0
    points, sides = (tensor.tolist() for tensor in moons(100, noise=0.1).tensors)
    labels = [2 * side - 1 for side in sides]
    engines = ((their_value, their_nn.MLP), (Value, nn.MLP))
    steps = [trainer(value, network, points, labels) for value, network in engines]
    theirs, ours = measure(*steps, rounds=int(sys.argv[1]) if len(sys.argv) > 1 else 15)
    print(f"one step of micrograd's demo: micrograd {theirs * 1e3:.0f} ms, pellucid.scalar {ours * 1e3:.0f} ms")
    print(f"ratio {theirs / ours:.2f} (goal {GOAL:g})")
    return 0 if theirs / ours >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
