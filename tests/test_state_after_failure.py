"""State after failure (trust T30–T32): whatever stops a backward, every `.grad` is as it was, to the bit.

Exceptions are thrown at every node of random graphs by hooks, custom functions, failing allocations and Ctrl-C;
afterwards the modes are restored and a retained graph runs again.
"""

import _thread
import os
import random
import signal
import threading
import time

import numpy as np
import pytest

import pellucid as torch
from pellucid.core import modes
from pellucid.core.function import Function
from pellucid.core.primitive import TABLE
from pellucid.core.tensor import Leaf, Node
from pellucid.testing import graphs

SOAK = os.environ.get("PELLUCID_SOAK", "") not in ("", "0")
GRAPHS = 200 if SOAK else 10
INTERRUPTS = 500 if SOAK else 30


class Boom(Exception):
    """Thrown on purpose."""


def boom(*_):
    raise Boom


# --- the state that must survive


class State:
    """A graph with gradients already on its leaves, and what they were."""

    def __init__(self, index: int, names: dict | None = None, program: graphs.Program | None = None) -> None:
        self.program = program or graphs.write("graph", 21, index)
        self.names = {"torch": torch, "np": np, **(names or {})}
        for k, ((name, _), array) in enumerate(zip(self.program.leaves, self.program.values(), strict=True)):
            leaf = self.names[name] = torch.tensor(array, requires_grad=True)
            if k % 2 == 0:  # some leaves have a gradient from before, some have none
                leaf.grad = torch.tensor(np.full(array.shape, 0.1 * (k + 1)))
        exec(self.program.body(), self.names)
        self.loss = self.names["loss"]
        self.leaves = [self.names[name] for name, _ in self.program.leaves]
        self.before = [bits(leaf) for leaf in self.leaves]
        self.objects = [leaf.grad for leaf in self.leaves]

    def check_untouched(self) -> None:
        assert [bits(leaf) for leaf in self.leaves] == self.before
        assert all(leaf.grad is grad for leaf, grad in zip(self.leaves, self.objects, strict=True))
        assert modes.MODE.get() is None

    def check_runs_again(self, expected: list) -> None:
        self.loss.backward()
        assert [bits(leaf) for leaf in self.leaves] == expected

    def nodes(self) -> list[Node]:
        found, stack = {}, [self.loss.node]
        while stack:
            node = stack.pop()
            if node is not None and id(node) not in found:
                found[id(node)] = node
                stack.extend(node.inputs)
        return list(found.values())


def bits(leaf) -> bytes | None:
    return None if leaf.grad is None else leaf.grad.array.tobytes()


def after_success(index: int) -> list:
    state = State(index)
    state.loss.backward()
    return [bits(leaf) for leaf in state.leaves]


def differentiable_graphs() -> list[int]:
    return [index for index in range(GRAPHS) if State(index).loss.node is not None]


# --- T30


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("hook", ["tensor", "before", "after"])
def test_a_failing_hook_at_any_node(hook: str, create_graph: bool) -> None:
    for index in differentiable_graphs()[:: 2 if create_graph else 1]:
        expected = after_success(index)
        count = len(State(index).nodes())
        for k in range(0, count, 1 if SOAK else 4):
            state = State(index)
            node = state.nodes()[k]
            if hook == "after" and isinstance(node, Leaf):
                continue
            handle = add_hook(node, hook)
            with pytest.raises(Boom):
                state.loss.backward(retain_graph=True, create_graph=create_graph)
            state.check_untouched()
            handle.remove()
            state.check_runs_again(expected)


def add_hook(node: Node, kind: str):
    from pellucid.core.tensor import extra_of

    extra = extra_of(node)
    return {"tensor": extra.on_gradient, "before": extra.before, "after": extra.after}[kind].add(boom)


class Fragile(Function):
    """The identity, with a backward that fails when told to."""

    fails = False

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        if Fragile.fails:
            raise Boom
        return g


def test_a_failing_custom_function_at_any_line() -> None:
    for index in differentiable_graphs()[:: 1 if SOAK else 3]:
        program = graphs.write("graph", 21, index)
        for k, line in enumerate(program.lines):
            target = line.split(" = ")[0]
            lines = (*program.lines[: k + 1], f"{target} = fragile({target})", *program.lines[k + 1 :])
            changed = graphs.replace(program, lines=lines)
            state = State(index, {"fragile": Fragile.apply}, changed)
            if not any(node.name() == "FragileBackward" for node in state.nodes()):
                continue
            Fragile.fails = True
            try:
                with pytest.raises(Boom):
                    state.loss.backward(retain_graph=True)
            finally:
                Fragile.fails = False
            state.check_untouched()
            state.loss.backward()


def test_a_failing_post_accumulate_hook_puts_every_gradient_back() -> None:
    x, y = (torch.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    x.grad = torch.tensor([0.5, 0.5])
    y.register_post_accumulate_grad_hook(boom)
    loss = (x * y).sum()
    with pytest.raises(Boom):
        loss.backward(retain_graph=True)
    assert x.grad.array.tolist() == [0.5, 0.5]
    assert y.grad is None


def test_a_failing_hook_inside_no_grad_restores_the_mode() -> None:
    x = torch.tensor([1.0], requires_grad=True)
    loss = (x * x).sum()
    x.register_hook(boom)
    with torch.no_grad():
        outside = modes.MODE.get()
        with pytest.raises(Boom):
            loss.backward()
        assert modes.MODE.get() is outside
    assert modes.MODE.get() is None


@pytest.mark.parametrize("switch", ["no_grad", "inference_mode", "enable_grad"])
def test_an_exception_in_a_block_restores_the_mode(switch: str) -> None:
    with pytest.raises(Boom), getattr(torch, switch)():
        boom()
    assert modes.MODE.get() is None
    assert torch.is_grad_enabled()


def test_an_error_in_a_second_backward_changes_nothing() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    loss = x.exp().sum()
    loss.backward()
    before = bits(x)
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()
    assert bits(x) == before


@pytest.mark.parametrize(
    "attempt",
    [
        lambda x: x.add_(torch.ones(7)),
        lambda x: x.mul_(torch.ones(2, 3, 4)),
        lambda x: x.__setitem__(9, 1.0),
        lambda x: x.__setitem__(0, torch.ones(5)),
        lambda x: x.copy_(torch.ones(7)),
        lambda x: x.add_("a"),
    ],
    ids=["shape", "broadcast shape", "index", "value shape", "copy", "type"],
)
def test_a_failed_write_leaves_the_tensor_as_it_was(attempt) -> None:
    x = torch.tensor(np.arange(6.0).reshape(2, 3), requires_grad=True) * 1.0
    before, node, version = x.array.copy(), x.node, x._version
    with pytest.raises((RuntimeError, IndexError, TypeError, ValueError)):
        attempt(x)
    assert np.array_equal(x.array, before)
    assert x.node is node
    assert x._version == version


# --- T32


class Allocator:
    """Lets the k-th use of a rule fail as if there were no memory."""

    def __init__(self, fails_at: int) -> None:
        self.fails_at, self.calls = fails_at, 0

    def wrap(self, rule):
        def wrapped(*arguments):
            self.calls += 1
            if self.calls == self.fails_at:
                raise MemoryError("no room for a gradient")
            return rule(*arguments)

        return wrapped


@pytest.fixture
def patched():
    """Replace the rules of a row for one test."""
    before = []

    def patch(name: str, allocator: Allocator) -> None:
        row = TABLE[name]
        before.append((row, row.edges))
        edges = tuple((i, None if rule is None else allocator.wrap(rule), arity) for i, rule, arity in row.edges)
        object.__setattr__(row, "edges", edges)

    yield patch
    for row, edges in reversed(before):
        object.__setattr__(row, "edges", edges)


@pytest.mark.parametrize("fails_at", range(1, 300 if SOAK else 40, 1 if SOAK else 3))
def test_no_memory_for_a_gradient(patched, fails_at: int) -> None:
    allocator = Allocator(fails_at)
    for name in ("mul", "sin", "exp", "sum", "matmul", "tanh"):
        if name in TABLE:
            patched(name, allocator)
    for index in differentiable_graphs()[:12]:
        allocator.calls = 0
        state = State(index)
        try:
            state.loss.backward(retain_graph=True)
        except MemoryError:
            state.check_untouched()
            allocator.calls = fails_at  # from now on there is memory
            state.loss.backward()


def test_no_memory_in_forward(monkeypatch) -> None:
    class Full:
        def operation(self, *_):
            raise MemoryError

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2.0
    before, node = y.array.copy(), y.node
    with pytest.raises(MemoryError), modes.switched(observers=(Full(),)):
        y.mul_(3.0)
    assert np.array_equal(y.array, before)
    assert y.node is node
    assert modes.MODE.get() is None


# --- T31: Ctrl-C


def long_state() -> tuple:
    """A graph that takes some milliseconds to walk, with several leaves."""
    leaves = [torch.tensor(np.full(3, 1.0 + 0.1 * k), requires_grad=True) for k in range(5)]
    for leaf in leaves[::2]:
        leaf.grad = torch.tensor(np.ones(3))
    total = leaves[0] * 1.0
    for k in range(6_000):  # a timer of processor time ticks every 4 ms
        total = total * 0.999 + leaves[k % 5] * 0.5
    return leaves, total.sum()


def expected_bits() -> list:
    leaves, loss = long_state()
    loss.backward()
    return [bits(leaf) for leaf in leaves]


def check_all_or_nothing(leaves, loss, before: list, after: list) -> bool:
    """Either nothing was written or everything; then a second backward gives what it should."""
    now = [bits(leaf) for leaf in leaves]
    assert now in (before, after), "some gradients were written, some were not"
    assert modes.MODE.get() is None
    if now == before:
        loss.backward()
        assert [bits(leaf) for leaf in leaves] == after
    return now == before


def wait_for_interrupt() -> None:
    """A function of its own: Python 3.13.0 does not catch what a signal raises at the jump of a loop inside `try`."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        pass


def interrupted(start, leaves, loss, before, after) -> bool:
    try:
        start()
        loss.backward(retain_graph=True)
        wait_for_interrupt()
        raise AssertionError("the interrupt never came")
    except KeyboardInterrupt:
        pass
    return check_all_or_nothing(leaves, loss, before, after)


needs_main_thread = pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals reach the main thread only"
)


@needs_main_thread
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers on this system")
def test_interrupt_by_a_timer_at_random_moments() -> None:
    def interrupt(*_):
        raise KeyboardInterrupt

    after = expected_bits()
    draws = random.Random(0)
    leaves, loss = long_state()
    started = time.process_time()
    loss.backward()
    duration = time.process_time() - started
    old = signal.signal(signal.SIGVTALRM, interrupt)
    try:
        undone = 0
        for _ in range(INTERRUPTS):
            leaves, loss = long_state()
            before = [bits(leaf) for leaf in leaves]
            moment = draws.uniform(1e-5, duration)
            undone += interrupted(
                lambda moment=moment: signal.setitimer(signal.ITIMER_VIRTUAL, moment), leaves, loss, before, after
            )
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, old)
    assert undone >= INTERRUPTS // 10, "hardly any interrupt came during backward: the test proves nothing"


@needs_main_thread
def test_interrupt_from_another_thread() -> None:
    old = signal.signal(signal.SIGINT, signal.default_int_handler)
    after = expected_bits()
    draws = random.Random(1)
    try:
        for _ in range(INTERRUPTS // 2):
            leaves, loss = long_state()
            before = [bits(leaf) for leaf in leaves]
            timer = threading.Timer(draws.uniform(0, 0.05), _thread.interrupt_main)
            interrupted(timer.start, leaves, loss, before, after)
            timer.join()
    finally:
        signal.signal(signal.SIGINT, old)


def test_interrupt_acts_within_one_node() -> None:
    """Ctrl-C in a long walk is noticed at the next node, not at the end (PyTorch: 4.2 s)."""
    leaves, loss = long_state()
    seen = []

    def press(g):
        raise KeyboardInterrupt

    nodes, node = [], loss.node
    while node is not None:
        nodes.append(node)
        node = node.inputs[0] if node.inputs else None
    add = nodes[len(nodes) // 2]
    add.register_prehook(press)
    for later in nodes[len(nodes) // 2 + 1 :]:
        later.register_prehook(lambda g: seen.append(1))
    before = [bits(leaf) for leaf in leaves]
    with pytest.raises(KeyboardInterrupt):
        loss.backward()
    assert not seen
    assert [bits(leaf) for leaf in leaves] == before
