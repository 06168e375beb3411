"""Measure Pellucid beside PyTorch eager, in one process and in turns.

    python bench/run.py              speed of small programs, single operations and the import
    python bench/run.py --steps      whole training steps: perceptrons, LeNet, ResNet, GPT, LSTM, Gaussian processes
    python bench/run.py --installs   the same steps without and with llvmlite, with one thread and with two
    python bench/run.py --shared     data and parameters that NumPy made, shares, or a DataLoader hands over
    python bench/run.py --kernels    convolution, pooling, normalisation ... forward and backward
    python bench/run.py --memory     resident memory over 100 000 training steps
    python bench/run.py --scaling    cost per node for chains of a thousand to a million nodes

Without a flag: all of them but --memory and --scaling, in some three minutes (longer on a busy machine).
Both libraries run the same code of `workloads.py` and `models.py`. Rounds alternate, and the best round of each counts,
because noise on a shared machine only ever adds time.
"""

import argparse
import compileall
import functools
import importlib
import importlib.util
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import models
import numpy
import workloads

import pellucid

RESULTS = Path(__file__).parent / "results" / "latest.json"
ROUND_SECONDS = 0.02  # long enough that the clock and the loop around it do not show
FEWEST_ROUNDS = 2
ROW_SECONDS = 3.0  # after which a row gets no further rounds: on a busy machine a step may wait for half a second
INSTALL_ROUNDS = 8  # of each step, in each of four processes
SETTLE = 0.03  # before a round of whole training steps: see `interleaved`
NOTE = "Machines are noisy: trust the ratios, not the microseconds, and repeat before you believe a change."


@dataclass
class Row:
    name: str
    pellucid: float
    torch: float | None = None
    numpy: float | None = None
    goal: float | None = None
    unit: str = "us"

    @property
    def ratio(self) -> float | None:
        return self.torch / self.pellucid if self.torch else None


# ---- measuring -------------------------------------------------------------------------------------------


def interleaved(steps: dict[str, Callable], rounds: int, settle: float = 0.0) -> dict[str, float]:
    """Best microseconds per call of each step; the order turns round so that nobody always runs first.

    With `settle`, each runs for so many seconds before it is timed: threads that the other one has woken (OpenBLAS's,
    OpenMP's, ours) go on looking for work for some 25 ms, and would take a core away from the one that is timed.
    """
    repeats = {name: _repeats(step) for name, step in steps.items()}
    best = dict.fromkeys(steps, float("inf"))
    order, end = list(steps), time.perf_counter() + ROW_SECONDS
    for done in range(rounds):
        if done >= FEWEST_ROUNDS and time.perf_counter() > end:
            break
        for name in order:
            until = time.perf_counter() + settle
            while time.perf_counter() < until:
                steps[name]()
            best[name] = min(best[name], _time(steps[name], repeats[name]) / repeats[name])
        order.reverse()
    return {name: seconds * 1e6 for name, seconds in best.items()}


def _repeats(step: Callable) -> int:
    """How many calls fill one round; doubling also warms caches and allocators."""
    repeats = 1
    while (seconds := _time(step, repeats)) < ROUND_SECONDS / 2:
        repeats *= 2
    return max(1, round(repeats * ROUND_SECONDS / seconds))


def _time(step: Callable, repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        step()
    return time.perf_counter() - start


# ---- the rows --------------------------------------------------------------------------------------------

CHAIN_GOALS = {(): 2.2, (16,): 2.2, (64, 64): 1.6, (256, 256): 1.0, (1024, 1024): 1.0}


def speed_rows(libraries: dict, rounds: int) -> list[Row]:
    rows = []
    for shape, goal in CHAIN_GOALS.items():
        name = f"chain of {workloads.CHAIN_OPS} {shape}"
        build = functools.partial(workloads.chain, shape=shape)
        rows.append(_row(name, libraries, build, rounds, goal=goal, settle=SETTLE))
    rows.append(_row("mlp 32-64-64-10", libraries, workloads.mlp, rounds))
    for op in workloads.SINGLE_OPS:
        floor = workloads.single_op_numpy(numpy, op)
        build = functools.partial(workloads.single_op, name=op)
        rows.append(_row(f"one {op}", libraries, build, rounds, floor=floor))
    return rows


def kernel_rows(libraries: dict, rounds: int) -> list[Row]:
    """Operations whose kernels are ours, forward and backward: none may take more than 1.5 times PyTorch's time."""
    rows = []
    for name in workloads.KERNELS:
        build = functools.partial(workloads.kernel, name=name)
        rows.append(_row(name, libraries, build, rounds, goal=0.67, settle=SETTLE))
    return rows


def step_rows(libraries: dict, rounds: int) -> list[Row]:
    """Whole training steps, as programs run them."""
    return [_row(name, libraries, build, rounds, goal, settle=SETTLE) for name, (goal, build) in models.STEPS.items()]


def shared_rows(libraries: dict, rounds: int) -> list[Row]:
    """What it costs that memory came from NumPy: of leaves, of an array beside, of the data of a training step."""
    rows = []
    for shape, goal in CHAIN_GOALS.items():
        for situation in (workloads.OWN, workloads.BESIDE, workloads.SHARED) if shape else ():
            build = functools.partial(workloads.chain, shape=shape, situation=situation)
            rows.append(_row(f"chain {shape}, {situation}", libraries, build, rounds, goal, settle=SETTLE))
    for name, build in models.FROM_DATA.items():
        rows.append(_row(name, libraries, build, rounds, settle=SETTLE))
    return rows


# The default install is `pip install .`, without llvmlite; what was told to OpenBLAS holds for our kernels too.
INSTALLS = {
    (install, threads): {"PELLUCID_NATIVE": native, "OPENBLAS_NUM_THREADS": str(threads)}
    for install, native in (("default", "0"), ("llvmlite", "1"))
    for threads in (1, 2)
}


def install_rows(rounds: int) -> dict[str, list[Row]]:
    """The rows of --steps in each install and with each number of threads, in a process of its own."""
    return {
        f"{install}, {threads} thread{'s' * (threads > 1)}": _steps_elsewhere(settings, threads, rounds)
        for (install, threads), settings in INSTALLS.items()
    }


def _steps_elsewhere(settings: dict[str, str], threads: int, rounds: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "steps.json"
        options = ["--steps", "--rounds", str(rounds), "--torch-threads", str(threads), "--results", str(results)]
        environment = {**os.environ, **settings}
        subprocess.run([sys.executable, __file__, *options], check=True, stdout=subprocess.DEVNULL, env=environment)
        rows = json.loads(results.read_text(encoding="utf-8"))["steps"]
    return [Row(**{name: value for name, value in row.items() if name != "ratio"}) for row in rows]


def _row(name, libraries, build, rounds, goal=None, floor=None, settle=0.0) -> Row:
    _progress(name)
    steps = {library: build(module) for library, module in libraries.items()}
    if floor is not None:
        steps["numpy"] = floor
    return Row(name, goal=goal, **interleaved(steps, rounds, settle))


def import_rows(libraries: dict) -> list[Row]:
    """Seconds that an import adds to a bare interpreter."""
    _progress("import")
    compileall.compile_dir(Path(pellucid.__file__).parent, quiet=1)  # an editable install may have no bytecode yet
    modules = [*libraries, "numpy"]
    best = dict.fromkeys(["", *modules], float("inf"))
    for _ in range(5):
        for module in best:
            best[module] = min(best[module], _interpreter_seconds(f"import {module}" if module else "pass"))
    added = {module: (best[module] - best[""]) * 1e3 for module in modules}
    return [Row("import", unit="ms", **added)]


def allocator_rows(rounds: int) -> list[Row]:
    """What keeping freed memory gains: the chain at 256x256 with glibc's own settings instead of ours."""
    _progress("allocator")
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import run, workloads, pellucid; "
        f"step = workloads.chain(pellucid, (256, 256)); print(run.interleaved({{'x': step}}, {rounds})['x'])"
    )
    environment = {**os.environ, "PELLUCID_MALLOC": "0"}
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)
    return [Row("chain of 21 (256, 256), PELLUCID_MALLOC=0", float(run.stdout))]


def _interpreter_seconds(code: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - start


def scaling_rows(libraries: dict) -> list[Row]:
    """Cost of one node, forward and backward, for longer and longer chains: flat means linear."""
    forward_rows, backward_rows = [], []
    for length in (1_000, 10_000, 100_000, 1_000_000):
        _progress(f"{length:,} nodes")
        costs = _best_costs(libraries, length)
        forward_rows.append(Row(f"forward  {length:>9,} nodes", **{name: pair[0] for name, pair in costs}))
        backward_rows.append(Row(f"backward {length:>9,} nodes", **{name: pair[1] for name, pair in costs}))
    return forward_rows + backward_rows


def _best_costs(libraries: dict, length: int) -> list[tuple[str, list[float]]]:
    """The best forward and the best backward of each library, over rounds taken in turns."""
    rounds = max(3, min(20, 200_000 // length))
    seen = [[_chain_cost(library, length) for library in libraries.values()] for _ in range(rounds)]
    best = [[min(costs) for costs in zip(*pairs)] for pairs in zip(*seen)]
    return list(zip(libraries, best))


def _chain_cost(library, length: int) -> tuple[float, float]:
    """Microseconds per node of one forward and one backward pass."""
    forward, backward = workloads.long_chain(library, length)
    start = time.perf_counter()
    y = forward()
    middle = time.perf_counter()
    backward(y)
    del y  # freeing the graph belongs to its cost
    end = time.perf_counter()
    return (middle - start) / length * 1e6, (end - middle) / length * 1e6


def memory_growth(library, steps: int) -> list[tuple[int, float]]:
    """Resident megabytes after every tenth of `steps`, from a start that has already warmed up."""
    step = workloads.mlp_training(library)
    _time(step, min(1_000, steps))
    seen = [(0, _resident_megabytes())]
    for tenth in range(1, 11):
        _time(step, steps // 10)
        seen.append((tenth * (steps // 10), _resident_megabytes()))
        _progress(f"{seen[-1][0]} steps, {seen[-1][1]:.1f} MB")
    return seen


def _resident_megabytes() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


# ---- reporting -------------------------------------------------------------------------------------------


def table(rows: list[Row]) -> str:
    heads = ("", "pellucid", "torch", "numpy", "torch/pellucid", "goal")
    cells = [heads, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(heads))]
    return "\n".join(_aligned(line, widths) for line in cells)


def install_table(columns: dict[str, list[Row]]) -> str:
    """One line for each step, one column for each install: the milliseconds and torch's time divided by them."""
    cells = [("", *columns)]
    for rows in zip(*columns.values()):
        cells.append((rows[0].name, *(_time_and_ratio(row) for row in rows)))
    means = [_geometric_mean([row.ratio for row in rows if row.ratio]) for rows in columns.values()]
    cells.append(("geometric mean", *(f"{mean:.2f}x" if mean else "-" for mean in means)))
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    return "\n".join(_aligned(line, widths) for line in cells)


def _time_and_ratio(row: Row) -> str:
    ratio = f"{row.ratio:.2f}x" if row.ratio else "-"
    return f"{row.pellucid / 1e3:,.2f} ms {ratio:>6}"


def _geometric_mean(values: list[float]) -> float | None:
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def _aligned(line: tuple[str, ...], widths: list[int]) -> str:
    numbers = [cell.rjust(width) for cell, width in zip(line[1:], widths[1:])]
    return "  ".join([line[0].ljust(widths[0]), *numbers]).rstrip()


def _cells(row: Row) -> tuple[str, ...]:
    values = (row.pellucid, row.torch, row.numpy)
    times = ["-" if value is None else f"{value:,.2f} {row.unit}" for value in values]
    ratio = f"{row.ratio:.2f}x" if row.ratio else "-"
    return (row.name, *times, ratio, _goal(row))


def _goal(row: Row) -> str:
    if row.goal is None or row.ratio is None:
        return ""
    return f"{row.goal:.2g}x {'met' if row.ratio >= row.goal else 'MISSED'}"


def _progress(what: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{what} ...", end="", file=sys.stderr, flush=True)


def _clear_progress() -> None:
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)


def machine(libraries: dict) -> dict[str, str]:
    """What a reader needs to compare two reports."""
    cores = str(os.cpu_count())
    blas_threads = os.environ.get("OPENBLAS_NUM_THREADS") or os.environ.get("OMP_NUM_THREADS")
    told = os.environ.get("OPENBLAS_CORETYPE")  # the processor whose code it is to run
    facts = {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}, {cores} cores, {_load()}",
        "numpy": f"{numpy.__version__}, BLAS threads {blas_threads or f'{cores} (default)'}"
        + (f", OPENBLAS_CORETYPE={told}" if told else ""),
        "pellucid": pellucid.__version__,
    }
    if "torch" in libraries:
        torch = libraries["torch"]
        vectors = torch.backends.cpu.get_cpu_capability()
        facts["torch"] = f"{torch.__version__}, threads {torch.get_num_threads()}, {vectors}"
    else:
        facts["torch"] = "not installed: only Pellucid is measured (pip install torch==2.13.0)"
    return facts


def _load() -> str:
    """On a busy machine threaded rows were seen a hundred times slower, so the load must be visible."""
    return f"load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "load unknown"


def print_memory(seen: list[tuple[int, float]]) -> None:
    for steps, megabytes in seen:
        print(f"{steps:>9,} steps  {megabytes:8.1f} MB")
    print(f"growth after warm-up: {seen[-1][1] - seen[0][1]:+.1f} MB over {seen[-1][0]:,} steps")


def write_results(results: dict, path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    print(f"written: {os.path.relpath(path)}")


# ---- the command -----------------------------------------------------------------------------------------


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--memory", action="store_true", help="measure memory over many training steps")
    parser.add_argument("--steps", action="store_true", help="measure only whole training steps")
    parser.add_argument("--installs", action="store_true", help="measure them in four installs and thread counts")
    parser.add_argument("--shared", action="store_true", help="measure data and parameters that come from NumPy")
    parser.add_argument("--kernels", action="store_true", help="measure only the operations with kernels of ours")
    parser.add_argument("--scaling", action="store_true", help="measure the cost per node of long chains")
    parser.add_argument("--rounds", type=int, default=15, help="rounds per row, the best counts (default 15)")
    parser.add_argument("--memory-steps", type=int, default=100_000, help="steps of --memory (default 100000)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file that the figures are written to")
    parser.add_argument("--torch-threads", type=int, help="threads of torch (default: torch's own choice)")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    libraries = {"pellucid": pellucid}
    if importlib.util.find_spec("torch"):
        libraries["torch"] = importlib.import_module("torch")
        if arguments.torch_threads:
            libraries["torch"].set_num_threads(arguments.torch_threads)

    results: dict = {"machine": machine(libraries)}
    for name, fact in results["machine"].items():
        print(f"{name:9} {fact}")
    print(f"{NOTE}\n")

    measure(arguments, libraries, results)
    write_results(results, arguments.results)


def measure(arguments: argparse.Namespace, libraries: dict, results: dict) -> None:
    """The sections that were asked for, else all that are not long."""
    rounds, flags = arguments.rounds, ("memory", "scaling", "steps", "installs", "shared", "kernels")
    everything = not any(getattr(arguments, flag) for flag in flags)
    if arguments.scaling:
        results["scaling"] = _report(scaling_rows(libraries))
    if arguments.memory:
        results["memory"] = memory_growth(pellucid, arguments.memory_steps)
        _clear_progress()
        print_memory(results["memory"])
    if everything:
        results["speed"] = _report(speed_rows(libraries, rounds) + allocator_rows(rounds) + import_rows(libraries))
    if arguments.kernels or everything:
        results["kernels"] = _report(kernel_rows(libraries, rounds))
    if arguments.shared or everything:
        results["shared"] = _report(shared_rows(libraries, rounds))
    if arguments.steps:
        results["steps"] = _report(step_rows(libraries, rounds))
    if arguments.installs or everything:  # the steps among them, so not once more
        columns = install_rows(min(rounds, INSTALL_ROUNDS))
        _clear_progress()
        print(f"{install_table(columns)}\n")
        results["installs"] = {name: _records(rows) for name, rows in columns.items()}


def _report(rows: list[Row]) -> list[dict]:
    _clear_progress()
    print(f"{table(rows)}\n")
    return _records(rows)


def _records(rows: list[Row]) -> list[dict]:
    return [asdict(row) | {"ratio": row.ratio} for row in rows]


if __name__ == "__main__":
    main()
