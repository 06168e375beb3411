"""Checkpointing: the same numbers, each block run twice, less memory, and measurements that hold."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pellucid
from pellucid import memory
from pellucid.lab.labs.lab import Criteria, expect
from pellucid.lab.labs.running import Work
from pellucid.utils.checkpoint import checkpoint, checkpoint_sequential

criteria = Criteria()
torch: Any = pellucid  # its names are made when it is imported: no type checker knows them
nn: Any = pellucid.nn
FILE, COUNT, WIDTH, BATCH, SEGMENTS = "segments.py", 16, 64, 512, 4


class Counted:
    """A block that counts its calls."""

    def __init__(self, block: Any) -> None:
        self.block, self.calls = block, 0

    def __call__(self, x: Any) -> Any:
        self.calls += 1
        return self.block(x)


def _model() -> tuple[list[Any], Any]:
    torch.manual_seed(0)
    blocks = [
        nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(COUNT)
    ]
    return blocks, torch.randn(BATCH, WIDTH)


def _plain(blocks: list[Any], x: Any) -> Any:
    for block in blocks:
        x = block(x)
    return x


def _peak(run: Callable[[], Any]) -> int:
    """The peak of a forward and a backward pass; the second time, when every gradient has its place."""
    run().sum().backward()
    with memory.track() as used:
        run().sum().backward()
    return used.peak


def _calls(run: Callable[[list[Any], Any], Any]) -> int:
    blocks, x = _model()
    counted = [Counted(block) for block in blocks]
    run(counted, x.requires_grad_()).sum().backward()
    return sum(block.calls for block in counted)


def truth() -> str:
    """How often blocks are called when all segments are checkpointed."""

    def run(blocks: list[Any], x: Any) -> Any:
        size = COUNT // SEGMENTS
        for start in range(0, COUNT, size):
            part = blocks[start : start + size]
            x = checkpoint(lambda x, part=part: _plain(part, x), x, use_reentrant=False)
        return x

    return str(_calls(run))


@criteria("checkpointed gives the value and the gradients of plain, in 1, 4 and 16 segments")
def same(work: Work) -> None:
    run = work.named(FILE, "checkpointed")
    blocks, x = _model()
    wanted, wanted_gradients = _results(partial(_plain, blocks, x), blocks)
    for segments in (1, SEGMENTS, COUNT):
        given, gradients = _results(partial(run, blocks, x, segments), blocks)
        expect(torch.allclose(given, wanted), f"in {segments} segments the result differs from plain")
        agree = all(torch.allclose(a, b) for a, b in zip(gradients, wanted_gradients))
        expect(agree, f"in {segments} segments the gradients differ from plain")


def _results(run: Callable[[], Any], blocks: list[Any]) -> tuple[Any, list[Any]]:
    parameters = [p for block in blocks for p in block.parameters()]
    for parameter in parameters:
        parameter.grad = None
    y = run()
    y.sum().backward()
    expect(all(p.grad is not None for p in parameters), "some parameters get no gradient: every block has to be run")
    return y.detach(), [p.grad for p in parameters]


@criteria("every block is run once in forward and once more in backward (the last segment may do without)")
def recomputed(work: Work) -> None:
    run = work.named(FILE, "checkpointed")
    calls = _calls(lambda blocks, x: run(blocks, x, SEGMENTS))
    expect(calls > COUNT, f"the {COUNT} blocks were called {calls} times in all: nothing is computed again")
    expect(calls <= 2 * COUNT, f"the {COUNT} blocks were called {calls} times in all: that is more than twice")


@criteria("in 4 segments the peak memory is at most 65 % of plain")
def saves(work: Work) -> None:
    run = work.named(FILE, "checkpointed")
    blocks, x = _model()
    plain, less = _peak(lambda: _plain(blocks, x)), _peak(lambda: run(blocks, x, SEGMENTS))
    expect(less <= 0.65 * plain, f"{less:,} bytes against {plain:,}: {less / plain:.0%}")


@criteria("best_segments: 4 for 16 layers, 8 for 64, 10 for 100")
def square_root(work: Work) -> None:
    best = work.named(FILE, "best_segments")
    for layers, wanted in ((16, 4), (64, 8), (100, 10)):
        expect(best(layers) == wanted, f"for {layers} layers it says {best(layers)}, not {wanted}")


@criteria("measure gives the peak in bytes and the seconds of a pass")
def measures(work: Work) -> None:
    blocks, x = _model()
    given = work.named(FILE, "measure")(lambda x: _plain(blocks, x), x)
    expect({"peak", "seconds"} <= set(given), f"it gives {sorted(given)}, not peak and seconds")
    wanted = _peak(lambda: _plain(blocks, x))
    expect(0.7 * wanted < given["peak"] < 1.4 * wanted, f"the peak is {given['peak']:,}, we measured {wanted:,}")
    expect(0 < given["seconds"] < 20, f"the time is {given['seconds']}")


@criteria("MEASURED holds what you measured, within a quarter of what we measure")
def written_down(work: Work) -> None:
    noted = work.named(FILE, "MEASURED")
    blocks, x = _model()
    wanted = {
        "plain": _peak(lambda: _plain(blocks, x)),
        "checkpointed": _peak(lambda: checkpoint_sequential(blocks, SEGMENTS, x.requires_grad_(), use_reentrant=False)),
    }
    for name, ours in wanted.items():
        given = noted.get(name)
        expect(isinstance(given, (int, float)), f"MEASURED[{name!r}] is empty")
        expect(0.75 * ours < given < 1.25 * ours, f"{name}: you noted {given:,}, we measured {ours:,}")
