"""Checkpointing trades time for memory: keep a few activations, compute the others again when backward needs them.

    python examples/checkpointing.py

prints

    all kept    keeps 38.80 MB for backward, 182 ms
    2 segments  keeps 20.97 MB for backward, 252 ms, gradients bit for bit the same: yes
    4 segments  keeps 13.63 MB for backward, 274 ms, gradients bit for bit the same: yes
    6 segments  keeps 12.58 MB for backward, 296 ms, gradients bit for bit the same: yes
    9 segments  keeps 13.63 MB for backward, 320 ms, gradients bit for bit the same: yes
    kept MB 38.80 -> 12.58
"""

import sys
import time
from functools import partial

import pellucid as torch

nn = torch.nn


def make_model(layers: int, width: int):
    blocks = [nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(layers)]
    return nn.Sequential(*blocks)


def plain(model, inputs):
    return model(inputs).square().mean()


def checkpointed(model, inputs, segments: int):
    result = torch.utils.checkpoint.checkpoint_sequential(model, segments, inputs, use_reentrant=False)
    return result.square().mean()


def measure(name: str, model, make_loss) -> tuple[int, list]:
    """Print what one step keeps and how long it takes; return the bytes and the gradients."""
    times = []
    for _ in range(3):  # the best of three: other programs disturb the clock
        model.zero_grad()
        began = time.process_time()
        loss = make_loss()
        loss.backward()
        times.append(time.process_time() - began)
    kept = torch.memory.report(make_loss()).total
    print(f"{name:<11} keeps {kept / 1e6:5.2f} MB for backward, {1000 * min(times):3.0f} ms", end="")
    return kept, [parameter.grad.clone() for parameter in model.parameters()]


def main() -> None:
    quick = "--quick" in sys.argv
    torch.manual_seed(0)
    layers, width, rows = (16, 64, 256) if quick else (36, 128, 2_048)
    model, inputs = make_model(layers, width), torch.randn(rows, width)

    kept, gradients = measure("all kept", model, partial(plain, model, inputs))
    print()
    least = kept
    for segments in (2, 4, 6, 9) if not quick else (2, 4):
        make_loss = partial(checkpointed, model, inputs, segments)
        fewer, again = measure(f"{segments} segments", model, make_loss)
        least = min(least, fewer)
        same = all(torch.equal(one, other) for one, other in zip(gradients, again))
        print(f", gradients bit for bit the same: {'yes' if same else 'no'}")
    print(f"kept MB {kept / 1e6:.2f} -> {least / 1e6:.2f}")


if __name__ == "__main__":
    main()
