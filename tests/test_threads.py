"""Threads and processes (trust T33, T34): own graphs are independent, shared leaves add up, modes are local."""

import asyncio
import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import pellucid as torch
from pellucid.core import backward, blas, exposure
from pellucid.testing import graphs

ROUNDS = 40


def work(seed: int) -> list[bytes]:
    """Some training by hand; the bits of everything it computes."""
    random = np.random.default_rng(seed)
    w = torch.tensor(random.standard_normal((6, 6)), requires_grad=True)
    x = torch.tensor(random.standard_normal((5, 6)))
    bits = []
    for _ in range(ROUNDS):
        loss = ((x @ w).tanh() * (w * w).sum(0)).mean()
        loss.backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
        bits.append(w.grad.array.tobytes() + loss.array.tobytes())
        w.grad = None
    return bits


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_own_graphs_give_the_bits_of_a_serial_run(threads: int) -> None:
    expected = [work(seed) for seed in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        assert list(pool.map(work, range(threads))) == expected


@pytest.mark.slow
def test_32_threads_of_random_programs() -> None:
    def run(index: int) -> list[bytes]:
        return [g.tobytes() for g in graphs.run(graphs.write("graph", 5, index), torch).gradients]

    expected = [run(index) for index in range(1_000)]
    with ThreadPoolExecutor(32) as pool:
        assert list(pool.map(run, range(1_000))) == expected


def train(seed: int) -> None:
    """A step with data and a weight that NumPy shares."""
    random = np.random.default_rng(seed)
    weight, data = random.standard_normal((2, 40, 40))
    x, w = torch.from_numpy(data), torch.from_numpy(weight).requires_grad_()
    ((x * w) * w * x).sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), 2 * weight * data * data)
    with torch.no_grad():
        w -= 0.1 * w.grad


def overwrite(seed: int) -> None:
    """NumPy writes to what a node has kept."""
    array = np.ones(1000)
    x = torch.from_numpy(array).requires_grad_()
    y = x * x * x
    array[seed] = 3
    with pytest.raises(torch.errors.InplaceError):
        y.sum().backward()


def hand_out(seed: int) -> None:
    """Memory that comes from NumPy and goes there, written in place."""
    torch.from_numpy(np.ones(50)).mul_(2)
    x = torch.ones(4)
    x.numpy()[0] = 2
    NEVER_WALKED.append(x * torch.ones(4, requires_grad=True))
    x.add_(1)


NEVER_WALKED: list[torch.Tensor] = []


@pytest.mark.parametrize("meanwhile", [train, overwrite, hand_out])
@pytest.mark.parametrize("use", [train, overwrite, hand_out])
@pytest.mark.timeout(60)
def test_memory_that_numpy_shares_is_watched_in_every_thread(use, meanwhile) -> None:
    """Between any two lines of the watch another thread may run."""
    with ThreadPoolExecutor(1) as other:

        def between(frame, event, _):
            if event == "line":
                other.submit(meanwhile, 1).result(timeout=60)
            return between if frame.f_code.co_filename == exposure.__file__ else None

        other.submit(meanwhile, 1).result()  # what is loaded when it is first used, is by now
        before = sys.gettrace()
        sys.settrace(between)
        try:
            use(0)
        finally:
            sys.settrace(before)
            NEVER_WALKED.clear()


@pytest.mark.parametrize("threads", [2, 8])
def test_gradients_of_shared_leaves_add_up(threads: int) -> None:
    shared = torch.zeros(50, dtype=torch.float64, requires_grad=True)
    start = threading.Barrier(threads)

    def run(k: int) -> None:
        start.wait()
        for _ in range(200):
            (shared * float(k + 1)).sum().backward()

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(run, range(threads)))
    assert shared.grad.array.tolist() == [200.0 * threads * (threads + 1) / 2] * 50


def test_one_graph_retained_walked_by_many_threads() -> None:
    x = torch.tensor(np.arange(1.0, 4.0), requires_grad=True)
    loss = (x * x).exp().sum()
    loss.backward(retain_graph=True)
    once = x.grad.array.copy()
    x.grad = None
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: loss.backward(retain_graph=True), range(64)))
    assert np.allclose(x.grad.array, 64 * once, rtol=1e-12)


def test_grad_mode_belongs_to_its_thread() -> None:
    inside, checked = threading.Event(), threading.Event()

    def without() -> bool:
        with torch.no_grad():
            inside.set()
            checked.wait(5)
            return torch.is_grad_enabled()

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(without)
        inside.wait(5)
        assert torch.is_grad_enabled()
        assert (torch.ones(1, requires_grad=True) * 2).requires_grad
        checked.set()
        assert other.result() is False
    with torch.no_grad(), ThreadPoolExecutor(1) as pool:
        assert pool.submit(torch.is_grad_enabled).result() is True  # a new thread starts normal, as in PyTorch


def test_grad_mode_belongs_to_its_task() -> None:
    async def without(started: asyncio.Event, leave: asyncio.Event) -> None:
        with torch.no_grad():
            started.set()
            await leave.wait()
            assert not torch.is_grad_enabled()

    async def main() -> None:
        started, leave = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(without(started, leave))
        await started.wait()
        assert torch.is_grad_enabled()
        leave.set()
        await task

    asyncio.run(main())


def test_anomaly_mode_belongs_to_its_thread() -> None:
    from pellucid.core.modes import detect_anomaly, is_anomaly_enabled

    with detect_anomaly(), ThreadPoolExecutor(1) as pool:
        assert pool.submit(is_anomaly_enabled).result() is False


def in_child(function) -> bytes:
    """What a forked child computes, through a pipe."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            with os.fdopen(writer, "wb") as stream:
                stream.write(function())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        result = stream.read()
    os.waitpid(child, 0)
    return result


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("forks", [10, pytest.param(200, marks=pytest.mark.slow)])
def test_a_forked_child_computes_the_same_bits(forks: int) -> None:
    expected = b"".join(work(3))
    x = torch.tensor(np.arange(1.0, 4.0), requires_grad=True)
    loss = (x * x).sum()  # a graph made before the fork can be walked after it

    def compute() -> bytes:
        loss.backward()
        assert x.grad.array.tolist() == [2.0, 4.0, 6.0]
        return b"".join(work(3))

    for _ in range(forks):
        assert in_child(compute) == expected
    loss.backward()
    assert x.grad.array.tolist() == [2.0, 4.0, 6.0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.timeout(60)
def test_a_child_that_was_forked_while_another_thread_held_a_lock_can_compute() -> None:
    held, forked = threading.Event(), threading.Event()

    def hold() -> None:
        with backward.COMMIT, blas.one_thread.door:
            held.set()
            forked.wait(30)

    def compute() -> bytes:
        signal.alarm(10)  # a child that waits for ever is ended, and has said nothing
        with blas.one_thread:
            return b"".join(work(3))

    expected = compute()
    signal.alarm(0)
    other = threading.Thread(target=hold)
    other.start()
    held.wait(30)
    found = in_child(compute)
    forked.set()
    other.join()
    assert found == expected
