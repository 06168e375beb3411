"""Scale and memory (trust T20–T23, T25): long, wide and many graphs; nothing recurses, nothing is left behind."""

import gc
import json
import subprocess
import sys
import time
import tracemalloc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import pellucid as torch
from pellucid.core.tensor import Node, Tensor
from pellucid.testing import graphs

QUICK_CHAIN = 100_000


def chain(length: int, x: Tensor) -> Tensor:
    y = x
    for _ in range(length // 2):
        y = y * 1.0000001 + 0.5
    return y


def run_chain(length: int) -> tuple[float, float]:
    x = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    y = chain(length, x)
    y.backward()
    del y
    return float(x.grad), 1.0000001 ** (length // 2)


def quietly(function, *arguments):
    """With the garbage collector off: what is freed is freed by reference counts."""
    gc.collect()
    gc.disable()
    try:
        return function(*arguments)
    finally:
        gc.enable()


# --- T20, T21


def test_a_long_chain_neither_recurses_nor_loses_precision() -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(200)
    try:
        found, expected = run_chain(QUICK_CHAIN)
    finally:
        sys.setrecursionlimit(limit)
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
def test_a_chain_of_a_million_nodes() -> None:
    started = time.process_time()
    found, expected = run_chain(1_000_000)
    assert found == pytest.approx(expected, rel=1e-9)
    assert time.process_time() - started < 32  # twice PyTorch's 16 s


def test_a_long_chain_is_freed_without_backward() -> None:
    x = torch.tensor(1.0, requires_grad=True)
    y = chain(QUICK_CHAIN, x)
    node = weakref.ref(y.node)
    quietly(lambda: None)
    del y
    assert node() is None


def test_bytes_per_node() -> None:
    x = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    length = 20_000
    tracemalloc.start()
    y = chain(length, x)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held / length <= 1_500
    del y


def test_cost_is_linear() -> None:
    def cost(length: int) -> float:
        times = []
        for _ in range(3):
            started = time.process_time()
            quietly(run_chain, length)
            times.append(time.process_time() - started)
        return min(times)

    assert cost(40_000) < 4 * 2.5 * cost(10_000)


def test_wide_fan_out() -> None:
    x = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    total = x * 0.0
    for _ in range(50_000):
        total = total + x * 3.0
    total.backward()
    assert float(x.grad) == 150_000.0


def test_wide_fan_in() -> None:
    leaves = [torch.tensor([float(k)], dtype=torch.float64, requires_grad=True) for k in range(10_000)]
    torch.cat(leaves).sum().backward()
    assert all(leaf.grad.item() == 1.0 for leaf in leaves)


@pytest.mark.slow
def test_a_hundred_thousand_leaves_into_one_stack() -> None:
    leaves = [torch.tensor(float(k), dtype=torch.float64, requires_grad=True) for k in range(100_000)]
    (torch.stack(leaves) * 2.0).sum().backward()
    assert all(leaf.grad.item() == 2.0 for leaf in leaves)


def test_doubling_has_an_exponential_number_of_paths_and_a_linear_cost() -> None:
    x = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    started = time.process_time()
    y = x
    for _ in range(1_000):
        y = y + y
    y.backward()
    assert float(x.grad) == 2.0**1000
    assert time.process_time() - started < 0.1


# --- T22: no reference cycles


class Net:
    """Two layers, by hand: only the engine is under test."""

    def __init__(self) -> None:
        random = np.random.default_rng(0)
        self.parameters = [
            torch.tensor(random.standard_normal(shape), requires_grad=True) for shape in ((4, 8), (8,), (8, 1), (1,))
        ]
        self.x = torch.tensor(random.standard_normal((16, 4)))
        self.t = torch.tensor(random.standard_normal((16, 1)))

    def loss(self) -> Tensor:
        w1, b1, w2, b2 = self.parameters
        error = (self.x @ w1 + b1).tanh() @ w2 + b2 - self.t
        return (error * error).mean()

    def step(self) -> float:
        loss = self.loss()
        loss.backward()
        with torch.no_grad():
            for parameter in self.parameters:
                parameter -= 0.05 * parameter.grad
                parameter.grad = None
        return loss.item()


@contextmanager
def only_new_garbage() -> Iterator[None]:
    """Leave to the collector what is made inside only: what other tests have left is freed whenever it is let go of."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def collected() -> list:
    """What only the garbage collector can free, of our own classes."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        return ours(gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


def ours(objects: list) -> list:
    return [thing for thing in objects if type(thing).__module__.startswith("pellucid")]


def check_no_growth(steps: int) -> None:
    net = Net()
    with only_new_garbage():
        for _ in range(500):  # Python's free lists and the ledger of the last 256 departures fill up first
            net.step()
        before = sys.getallocatedblocks()
        for _ in range(steps):
            net.step()
        grown = sys.getallocatedblocks() - before
        left = collected()
    assert not left, f"the garbage collector found {[type(thing).__name__ for thing in left[:10]]}"
    assert grown < 200, f"{grown} blocks of memory more after {steps} steps"


def test_training_leaves_nothing_behind() -> None:
    check_no_growth(2_000)


@pytest.mark.slow
def test_long_training_leaves_nothing_behind() -> None:
    check_no_growth(100_000)


def test_every_way_to_use_a_graph_leaves_no_cycle() -> None:
    def use() -> None:
        x = torch.tensor(np.arange(1.0, 5.0), requires_grad=True)
        y = (x * x).exp()
        y.retain_grad()
        handle = y.register_hook(lambda g: g * 1.0)
        z = y.clone()
        part = z[1:]
        part.mul_(0.5)
        z.sum().backward(retain_graph=True)
        z.sum().backward(create_graph=False)
        handle.remove()
        with torch.no_grad():
            x.mul_(0.9)
        w = (x * x).sum()
        w.backward(create_graph=True)  # PyTorch warns that this makes a cycle; it need not
        x.grad = None

    use()
    with only_new_garbage():
        use()
        left = collected()
    assert not left, [type(thing).__name__ for thing in left]


# --- T23: freed at the last reference


def nodes_below(tensor: Tensor) -> list[Node]:
    found, stack = {}, [tensor.node]
    while stack:
        node = stack.pop()
        if node is not None and id(node) not in found:
            found[id(node)] = node
            stack.extend(node.inputs)
    return list(found.values())


@pytest.mark.parametrize("when", ["before backward", "after backward", "after a failure"])
def test_graphs_are_freed_at_once(when: str) -> None:
    def watch(index: int) -> list[weakref.ref]:
        program = graphs.write("graph", 11, index)
        names, loss = graphs.forward(program, torch, program.values())
        if loss.node is None:
            return []
        leaves = {id(names[name].node) for name, _ in program.leaves}
        watched = [weakref.ref(node) for node in nodes_below(loss) if id(node) not in leaves]
        if when == "after backward":
            loss.backward()
        if when == "after a failure":
            names[program.leaves[0][0]].register_hook(fail)
            with pytest.raises(ZeroDivisionError):
                loss.backward()
        names.clear()
        return watched

    def fail(g):
        raise ZeroDivisionError

    gc.disable()
    try:
        for index in range(100):
            try:
                watched = watch(index)
            except pytest.fail.Exception:  # the first leaf took no part in the loss
                continue
            alive = [reference() for reference in watched if reference() is not None]
            assert not alive, f"program {index}: {alive}"
    finally:
        gc.enable()


def test_a_failed_operation_does_not_keep_its_inputs() -> None:
    big = torch.zeros(3, 4, requires_grad=True) * 1.0
    node = weakref.ref(big.node)
    message = ""
    try:
        big + torch.zeros(5)
    except RuntimeError as error:
        message = str(error)
    assert "add" in message
    del big
    assert node() is None


def test_saved_values_are_given_back_as_backward_goes() -> None:
    x = torch.tensor(np.ones(1_000), requires_grad=True)
    y = x.exp()
    saved = weakref.ref(y.array)
    z = y.exp()
    del y
    assert saved() is not None
    z.sum().backward()
    assert saved() is None


# --- T25


def test_import_is_quick_and_light() -> None:
    script = (
        "import sys, time, json\n"
        "started = time.process_time()\n"
        "import pellucid\n"
        "took = time.process_time() - started\n"
        "heavy = {'scipy', 'torch', 'matplotlib', 'llvmlite', 'IPython', 'rich', 'yaml'} & set(sys.modules)\n"
        "print(json.dumps([took, sorted(heavy)]))"
    )
    best = min(
        (
            json.loads(subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout)
            for _ in range(3)
        ),
        key=lambda result: result[0],
    )
    assert best[1] == []
    assert best[0] <= 0.5
