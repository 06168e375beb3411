"""The same seed gives the same losses, bit for bit: in every process, for every seed of Python's own hashing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src"
PROGRAM = """
import sys
import pellucid as torch
from pellucid.utils.data import DataLoader
from pellucid.utils.data.datasets import digits

nn = torch.nn
torch.manual_seed(3)
kinds = {"convolution", "norm", "dropout"}  # a set: its order is what PYTHONHASHSEED changes
made = {
    "convolution": nn.Conv2d(1, 4, 3, padding=1), "norm": nn.BatchNorm2d(4), "dropout": nn.Dropout(0.2),
}
first = nn.ModuleDict({kind: made[kind] for kind in sorted(kinds)})
model = nn.ModuleDict({"first": first, "lstm": nn.LSTM(32, 16, batch_first=True), "last": nn.Linear(16, 10)})
unordered = {id(p): p for p in {*model.parameters()}}
optimizer = torch.optim.AdamW([p for p in model.parameters() if id(p) in unordered], lr=0.01)
steps = int(sys.argv[1])
loader = DataLoader(digits(16 * steps), batch_size=16, shuffle=True)
for pictures, labels in loader:
    features = first["dropout"](first["norm"](first["convolution"](pictures)).relu())
    rows, _ = model["lstm"](features.permute(0, 2, 1, 3).flatten(2))
    loss = nn.functional.cross_entropy(model["last"](rows[:, -1]), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(float(loss).hex())
print(torch.rand(1).item().hex())
"""


def losses(steps: int, hash_seed: str, threads: int = 1) -> list[str]:
    """What one process prints."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONHASHSEED": hash_seed}
    environment |= dict.fromkeys(names, str(threads))
    command = [sys.executable, "-c", PROGRAM, str(steps)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    return run.stdout.split()


def test_every_process_gives_the_same_losses():
    histories = [losses(12, hash_seed) for hash_seed in "0123"]
    assert len(set(histories[0])) == 13  # they move, and are numbers
    assert all(history == histories[0] for history in histories)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_a_hundred_steps_for_every_hash_seed_and_number_of_threads(threads):
    """The number of threads may change the order of sums, so each number is held to itself only."""
    histories = [losses(100, str(hash_seed), threads) for hash_seed in range(10)]
    assert all(history == histories[0] for history in histories)
