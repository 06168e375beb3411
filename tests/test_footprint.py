"""How much memory a step and the import take (trust T24, T25), other processes (T34), and recomputation (T4).

T24 compares what is kept for backward, byte by byte, and not two allocators: ours is the tracemalloc peak of a
training step (NumPy reports every buffer to it), PyTorch's is the peak of the bytes that its profiler saw allocated
and freed in the same step. Both count the same kind of thing (live buffers above the parameters and the data), to the
byte and without noise, which resident memory does not: its pages come and go with malloc's habits. PyTorch's figures
are recorded, so the test needs no PyTorch; where it is installed they are measured again.
"""

import gc
import importlib.util
import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pellucid
from pellucid.native.kernel import available
from pellucid.testing import graphs
from pellucid.utils.checkpoint import checkpoint

spec = importlib.util.spec_from_file_location("bench_models", Path(__file__).parents[1] / "bench" / "models.py")
models = importlib.util.module_from_spec(spec)
spec.loader.exec_module(models)

# --- T24


def mlp(library: Any, batch: int, width: int, depth: int) -> Any:
    """A step of an MLP: its function, and what is there before it. tanh and relu take turns."""
    random = np.random.default_rng(0)

    def array(*shape: int) -> Any:
        return library.tensor((random.normal(size=shape) / np.sqrt(width)).astype(np.float32))

    weights = [array(width, width).requires_grad_() for _ in range(depth)]
    biases = [array(width).requires_grad_() for _ in range(depth)]
    x, target = array(batch, width), array(batch, width)

    def step() -> None:
        h = x
        for k, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
            h = library.addmm(bias, h, weight)
            h = h.tanh() if k % 2 else h.relu()
        ((h - target) ** 2).mean().backward()

    def forget() -> None:
        for parameter in (*weights, *biases):
            parameter.grad = None

    return step, forget


def our_peak(step: Any, forget: Any) -> int:
    """The most bytes that lived at once in a step, beyond those that lived before it."""
    step()
    forget()
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        step()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
        forget()


def their_peak(torch: Any, step: Any, forget: Any) -> int:
    """The same for PyTorch: its profiler tells every allocation (+) and release (-) in the order of time."""
    step()
    forget()
    with torch.profiler.profile(profile_memory=True, activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        step()
    forget()
    events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
    live = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        live += event.nbytes()
        peak = max(peak, live)
    return peak


def whole_step(library: Any, name: str) -> Any:
    """A training step of bench/models.py, which forgets its gradients by itself."""
    return models.STEPS[name][1](library), lambda: None


# What is made and run, and PyTorch's peak in bytes
STEPS = {
    (mlp, 256, 128, 8): 1_703_944,
    (mlp, 1024, 64, 12): 4_456_456,
    (mlp, 64, 256, 4): 1_183_752,
    (whole_step, "LeNet 32x1x28x28"): 2_444_152,
    (whole_step, "ResNet 16-32-64, 16x3x32x32"): 12_293_296,
    (whole_step, "char-GPT 1 layer of 32, 4x32"): 398_512,
    (whole_step, "char-GPT 2 layers of 64, 8x64"): 4_948_232,
    (whole_step, "LSTM 128, 16x32"): 7_580_996,
}
every_step = pytest.mark.parametrize("made", STEPS, ids=lambda made: " ".join(map(str, made[1:])))


@every_step
def test_a_step_takes_at_most_a_fifth_more_memory_than_pytorchs(made: tuple[Any, ...]) -> None:
    peak = our_peak(*made[0](pellucid, *made[1:]))
    share = 1.2 if available() else 2.0  # NumPy's passes over memory need room, and its convolutions unfold the images
    assert peak <= share * STEPS[made], f"{peak / STEPS[made]:.2f} of PyTorch's"


@every_step
def test_pytorchs_figure(torch: Any, made: tuple[Any, ...]) -> None:
    peak = their_peak(torch, *made[0](torch, *made[1:]))
    assert abs(peak - STEPS[made]) <= 0.12 * STEPS[made], peak  # its kernels take more or less scratch memory


def test_what_is_kept_for_backward_is_the_activations() -> None:
    batch, width, depth = 256, 128, 8
    step, forget = mlp(pellucid, batch, width, depth)
    activation, parameters = 4 * batch * width, 4 * depth * (width * width + width)
    # one result per layer, and in backward the gradient on its way beside its successor
    assert our_peak(step, forget) <= (depth + 4) * activation + parameters


# --- T25: resident memory of the import


def in_fresh_process(script: str) -> Any:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    return json.loads(done.stdout)


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs /proc")
def test_the_import_takes_at_most_60_megabytes() -> None:
    script = (
        "import json, pellucid\n"
        "with open('/proc/self/status') as status:\n"
        "    lines = dict(line.split(':', 1) for line in status)\n"
        "print(json.dumps([int(lines[key].split()[0]) for key in ('VmRSS', 'VmHWM')]))"
    )
    resident, peak = in_fresh_process(script)
    assert resident <= 60 * 1024, f"{resident / 1024:.0f} MB"
    assert peak <= 70 * 1024, f"{peak / 1024:.0f} MB at the most"


# --- T34: other processes

WORK = """
import hashlib, sys
import numpy as np
import pellucid as torch

def work():
    torch.manual_seed(5)
    x = torch.tensor(np.linspace(-1, 1, 24).reshape(4, 6), requires_grad=True)
    w = torch.randn(6, 6, dtype=torch.float64).requires_grad_()
    loss = ((x @ w).tanh().softmax(-1) * torch.rand(4, 6, dtype=torch.float64)).sum().exp()
    loss.backward()
    bits = b"".join(t.detach().numpy().tobytes() for t in (loss, x.grad, w.grad))
    return hashlib.sha256(bits).hexdigest()
"""

FORKS = """
import os, warnings
warnings.simplefilter("ignore", DeprecationWarning)
names = {}
exec(WORK, names)
work, torch = names["work"], names["torch"]
expected = work()
big = torch.ones(400, 400, dtype=torch.float64)
for k in range(COUNT):
    (big @ big).sum()  # the BLAS threads have just worked
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        (big @ big).sum()
        os.write(writer, work().encode())
        os._exit(0)
    os.close(writer)
    found = os.read(reader, 100).decode()
    os.close(reader)
    assert os.waitpid(child, 0)[1] == 0
    assert found == expected == work(), (k, found)
print(repr(expected).replace("'", '"'))
"""

SPAWN = """
import multiprocessing, sys
sys.path.insert(0, sys.argv[1])
import footprint_work

if __name__ == "__main__":
    expected = footprint_work.work()
    for method in ("spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            found = [pool.apply_async(footprint_work.work) for _ in range(4)]
            assert all(each.get(60) == expected for each in found), method
    print(expected)
"""


def digest_here() -> str:
    names: dict[str, Any] = {}
    exec(WORK, names)
    return names["work"]()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("count", [30, pytest.param(200, marks=pytest.mark.slow)])
def test_forks_with_several_blas_threads(count: int) -> None:
    """A deadlock would run into the time limit; in a process of its own, because BLAS reads its settings once."""
    script = f"WORK = {WORK!r}\nCOUNT = {count}\n{FORKS}"
    threads = {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, env={**os.environ, **threads}
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == digest_here()


def test_spawned_processes_compute_the_same_bits(tmp_path: Any) -> None:
    (tmp_path / "footprint_work.py").write_text(WORK)
    (tmp_path / "main.py").write_text(SPAWN)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, str(tmp_path / "main.py"), str(tmp_path)],
        capture_output=True, text=True, timeout=120, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == digest_here()


def test_tensors_travel_to_spawned_processes(tmp_path: Any) -> None:
    """Pickled with dtype, layout and requires_grad; what comes back is equal to the bit."""
    (tmp_path / "footprint_travel.py").write_text("def double(x):\n    return (x.requires_grad, (x.detach() * 2))\n")
    (tmp_path / "main.py").write_text(
        "import multiprocessing, footprint_travel, pellucid as torch\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "        for dtype in (torch.float32, torch.bfloat16, torch.complex64, torch.int64):\n"
        "            x = torch.arange(6).reshape(2, 3).to(dtype).mT\n"
        "            if dtype is not torch.int64:\n"
        "                x = x.detach().requires_grad_()\n"
        "            needs, y = pool.apply(footprint_travel.double, (x,))\n"
        "            assert needs == x.requires_grad and y.dtype == dtype\n"
        "            assert torch.equal(y, x.detach() * 2)\n"
    )
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, str(tmp_path / "main.py")],
        capture_output=True, text=True, timeout=120, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


# --- T4: gradients with recomputation are those without, bit for bit


def gradients(program: graphs.Program, segments: int, reentrant: bool) -> list[bytes]:
    """The bits of the loss and of the gradients of a program whose lines run in checkpointed segments."""
    values = program.values()
    state = {
        name: pellucid.tensor(array, requires_grad=True)
        for (name, _), array in zip(program.leaves, values, strict=True)
    }
    leaves = list(state.values())
    lines = program.body().splitlines()
    size = max(1, -(-len(lines) // segments)) if segments else len(lines)
    for start in range(0, len(lines), size):
        segment = "\n".join(lines[start : start + size])
        state = run_segment(segment, state, segments > 0, reentrant)
    state["loss"].backward()
    return [state["loss"].array.tobytes(), *(b"" if x.grad is None else x.grad.array.tobytes() for x in leaves)]


def run_segment(text: str, state: dict[str, Any], checkpointed: bool, reentrant: bool) -> dict[str, Any]:
    """Run lines on a dictionary of tensors; the new dictionary."""
    names = list(state)
    made = [line.split(" = ")[0] for line in text.splitlines()]

    def function(*tensors: Any) -> tuple[Any, ...]:
        scope = {"torch": pellucid, "np": np, **dict(zip(names, tensors, strict=True))}
        exec(text, scope)
        return tuple(scope[name] for name in made)

    given = tuple(state.values())
    results = checkpoint(function, *given, use_reentrant=reentrant) if checkpointed else function(*given)
    return {**state, **dict(zip(made, results, strict=True))}


@pytest.mark.parametrize(("segments", "reentrant"), [(1, False), (1, True), (4, False)])
def test_checkpointed_graphs_give_the_same_bits(segments: int, reentrant: bool) -> None:
    different, with_gradient = [], 0
    for index in range(50):
        program = graphs.write("graph", 11, index)
        plain = gradients(program, 0, reentrant)
        with_gradient += any(plain[1:])
        if gradients(program, segments, reentrant) != plain:
            different.append(program.script())
    assert not different, "\n\n".join(different[:2])
    assert with_gradient >= 48


def test_reentrant_segments_differ_by_the_order_of_additions_only() -> None:
    """Each segment is a backward of its own: a tensor used in several gets its gradients summed per segment first."""
    for index in range(50):
        program = graphs.write("graph", 11, index)
        plain, again = gradients(program, 0, True), gradients(program, 4, True)
        assert plain[0] == again[0]
        for expected, found in zip(plain[1:], again[1:], strict=True):
            expected, found = np.frombuffer(expected), np.frombuffer(found)
            np.testing.assert_allclose(found, expected, 1e-12, 1e-13 * (1 + np.abs(expected).max(initial=0)))
