"""Measure what the doctor costs a training step.

    python bench/doctor.py              every program
    python bench/doctor.py lstm         those whose name contains "lstm"
    python bench/doctor.py --scripts    whole commands, `pellucid doctor` against `pellucid run`, on healthy scripts

Runs with and without the doctor take turns, each from the making of its model on. Of every step of a run the best time
counts (noise on a shared machine only ever adds to it), and the mean of these is printed, plain and under the doctor:
for the first eight passes, most of which it follows closely, and for those after them, which it samples. The goal is 3.
"""

import gc
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from statistics import mean, median

import models

import pellucid
from pellucid.diagnose.doctor import doctor

GOAL = 3.0
EARLY = 8  # passes, of which it follows most closely
STEPS = 28  # of one run: the passes 10 and 20 are among those that the doctor looks at
SECONDS = 8.0  # for each program
SCRIPTS = Path(__file__).resolve().parents[1] / "tests" / "doctor_corpus" / "healthy"
EVERY, ROUNDS = 3, 3  # of the scripts every third one is run, three times each way
PROGRAMS: dict[str, Callable[..., models.Step]] = {
    "MLP 32-64-64-10, batch 16": partial(models.mlp, sizes=(32, 64, 64, 10), batch=16),
    "MLP 32-64-64-10, batch 16, Adam": partial(models.mlp, sizes=(32, 64, 64, 10), batch=16, kind="Adam"),
    "LeNet 32x1x28x28": models.lenet,
    "char-GPT 2 layers of 64, 8x64": partial(models.char_gpt, layers=2, width=64, length=64, batch=8),
    "LSTM 128, 16x32": models.lstm,
    "RNN by hand, 80 steps": partial(models.by_hand, cell="RNN", length=80),
    "LSTM by hand, 50 steps": partial(models.by_hand, cell="LSTM", length=50),
    "GAN, two optimizers": models.gan,
}


def run(program: Callable[..., models.Step], watch: AbstractContextManager[object]) -> tuple[list[float], int]:
    """The seconds that each step of a run takes, and how many steps the first passes are."""
    gc.collect()  # a doctor is a cycle: those of earlier runs would hold their memory
    times, closely = [], 0
    with watch:
        step = program(pellucid)
        for _ in range(STEPS):
            closely += isinstance(watch, doctor) and watch.trace.open.number < EARLY
            began = time.perf_counter()
            step()
            times.append(time.perf_counter() - began)
    return times, closely


def measure(program: Callable[..., models.Step]) -> tuple[list[float], list[float], int]:
    """The best times of the steps of a plain run and of one under the doctor, and how many steps it follows closely."""
    run(program, nullcontext())
    plain, watched, closely = [], [], 0
    until = time.perf_counter() + SECONDS
    while time.perf_counter() < until:
        plain.append(run(program, nullcontext())[0])
        times, closely = run(program, doctor())
        watched.append(times)
    return [min(times) for times in zip(*plain)], [min(times) for times in zip(*watched)], closely


def command(name: str, script: Path) -> float:
    """The seconds that a command of ours takes on a script, the best of a few rounds."""
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", "pellucid", name, str(script)], capture_output=True, check=True)
        times.append(time.perf_counter() - began)
    return min(times)


def whole_scripts() -> None:
    """Print what the doctor costs whole scripts, starting Python and importing included."""
    times = {script.stem: (command("run", script), command("doctor", script)) for script in chosen()}
    ratios = {name: after / before for name, (before, after) in times.items()}
    before, after = (sum(each) for each in zip(*times.values()))
    worst = max(ratios, key=lambda name: ratios[name])
    print(f"{len(times)} scripts: {before:.1f} s -> {after:.1f} s: {after / before:.2f} together, "
          f"{median(ratios.values()):.2f} the middle one, {ratios[worst]:.2f} the worst ({worst})")  # fmt: skip


def chosen() -> list[Path]:
    return sorted(SCRIPTS.glob("*.py"))[::EVERY]


def main() -> None:
    if sys.argv[1:] == ["--scripts"]:
        whole_scripts()
        return
    wanted = sys.argv[1].lower() if len(sys.argv) > 1 else ""
    print(f"{'one training step':32} {'first eight passes':^30} {'later passes':^30} (goal {GOAL})")
    for name, program in PROGRAMS.items():
        if wanted in name.lower():
            plain, watched, closely = measure(program)
            first, later = told(plain[:closely], watched[:closely]), told(plain[closely:], watched[closely:])
            print(f"{name:32} {first} {later}", flush=True)


def told(plain: list[float], watched: list[float]) -> str:
    """The time of a step without and with the doctor, and how many times the one the other is."""
    before, after = mean(plain), mean(watched)
    return f"{before * 1e3:6.2f} ms -> {after * 1e3:6.2f} ms: {after / before:5.2f}"


if __name__ == "__main__":
    main()
