"""Measure what the flight recorder costs a training step while nothing goes wrong.

    python bench/recorder.py              every model
    python bench/recorder.py gpt          those whose name contains "gpt"

Steps with and without the recorder take turns, one by one, and the best of each counts (the median is printed beside
it): noise on a shared machine only ever adds time. The goal is 5 % for "char-GPT 2 layers of 64", the model of
examples/char_gpt.py.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

import models

import pellucid
from pellucid.diagnose.recorder import Recorder

GOAL = 1.05
MODELS = {
    "char-GPT 2 layers of 64, 8x64": lambda: models.char_gpt(pellucid, layers=2, width=64, length=64, batch=8),
    "char-GPT 4 layers of 128, 12x64": lambda: models.char_gpt(pellucid, layers=4, width=128, length=64, batch=12),
    "LSTM 128, 16x32": lambda: models.lstm(pellucid),
    "LeNet": lambda: models.lenet(pellucid),
}


def timed(step) -> float:
    began = time.perf_counter()
    step()
    return time.perf_counter() - began


def measure(step, seconds: float) -> tuple[list[float], list[float]]:
    """Seconds per step without and with a recorder, in turns; a recorder stays on for a few steps at a time."""
    plain, recorded = [], []
    path = Path(tempfile.mkdtemp()) / "flight.pellucid"
    recorder = Recorder(path=path)
    for _ in range(3):
        step()
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        plain += [timed(step) for _ in range(4)]
        with recorder:
            recorded += [timed(step) for _ in range(4)]
    return plain, recorded


def main() -> None:
    wanted = sys.argv[1].lower() if len(sys.argv) > 1 else ""
    print(f"{'one training step':34} {'plain':>9} {'recorded':>9} {'best':>7} {'median':>7}   (goal {GOAL})")
    for name, make in MODELS.items():
        if wanted in name.lower():
            plain, recorded = measure(make(), 10)
            best = min(recorded) / min(plain)
            middle = statistics.median(recorded) / statistics.median(plain)
            print(f"{name:34} {min(plain) * 1e3:6.2f} ms {min(recorded) * 1e3:6.2f} ms {best:7.3f} {middle:7.3f}")


if __name__ == "__main__":
    main()
