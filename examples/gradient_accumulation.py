"""Four small batches make one large one: `backward` adds to .grad, so a batch need not fit into memory at once.

    python examples/gradient_accumulation.py

The mean over 64 rows is the sum of the means over 4 × 16 rows, each divided by 4. Here weights and data are
sixteenths: every sum is then exact in float64, and so the two gradients are equal to the last bit.

prints

    loss of one batch 4.266690
    loss of 4 parts   4.266690
    kept for backward: 21,504 bytes at once, 8,832 in parts
    after training: 0.285291 and 0.285291
    largest difference of a gradient: 0
"""

import copy
import sys

import pellucid as torch

nn, F = torch.nn, torch.nn.functional
ROWS, PARTS = 64, 4


def sixteenths(*shape: int):
    return torch.randint(-16, 17, shape).double() / 16


def make_model():
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(sixteenths(*parameter.shape))
    return model


def one_batch(model, inputs, targets) -> float:
    loss = F.mse_loss(model(inputs), targets)
    loss.backward()
    return loss.item()


def small_batches(model, inputs, targets) -> float:
    total = 0.0
    for some_inputs, some_targets in zip(inputs.chunk(PARTS), targets.chunk(PARTS)):
        loss = F.mse_loss(model(some_inputs), some_targets) / PARTS
        loss.backward()  # adds to what the parts before have left in .grad
        total += loss.item()
    return total


def kept_bytes(model, inputs, targets) -> int:
    """What the graph of a loss keeps for backward."""
    return torch.memory.report(F.mse_loss(model(inputs), targets)).total


def main() -> None:
    quick = "--quick" in sys.argv
    torch.manual_seed(0)
    whole = make_model()
    parted = copy.deepcopy(whole)
    inputs, targets = sixteenths(ROWS, 8), sixteenths(ROWS, 1)
    print(f"loss of one batch {one_batch(whole, inputs, targets):.6f}")
    print(f"loss of {PARTS} parts   {small_batches(parted, inputs, targets):.6f}")
    difference = max(
        (one.grad - other.grad).abs().max().item() for one, other in zip(whole.parameters(), parted.parameters())
    )
    print(f"kept for backward: {kept_bytes(whole, inputs, targets):,} bytes at once,", end=" ")
    print(f"{kept_bytes(whole, inputs[: ROWS // PARTS], targets[: ROWS // PARTS]):,} in parts")

    losses = []
    for model, gradients_of in ((whole, one_batch), (parted, small_batches)):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(20 if quick else 200):
            optimizer.zero_grad()
            loss = gradients_of(model, inputs, targets)
            optimizer.step()
        losses.append(loss)
    print(f"after training: {losses[0]:.6f} and {losses[1]:.6f}")
    print(f"largest difference of a gradient: {difference:g}")


if __name__ == "__main__":
    main()
