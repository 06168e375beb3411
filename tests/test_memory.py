"""The ledger: what a graph keeps, counted once; what a block used; what checkpointing saves (mission K1 to K4)."""

import gc
import weakref

import numpy as np
import pytest

import pellucid as pl
from pellucid import memory
from pellucid.utils.checkpoint import checkpoint, checkpoint_sequential


def block(seed, width=32, hidden=128):
    """A transformer-like residual block: normalise, widen, activate, narrow, add."""
    draw = np.random.default_rng(seed)
    up = pl.tensor(draw.normal(size=(width, hidden)).astype("f") / 6, requires_grad=True)
    down = pl.tensor(draw.normal(size=(hidden, width)).astype("f") / 12, requires_grad=True)

    def run(x):
        centred = x - x.mean(-1, keepdim=True)
        return x + (centred @ up).tanh().sin() @ down

    return run


def blocks():
    """New ones for every test: what one test's backward leaves in `.grad` is no affair of another."""
    return [block(seed) for seed in range(12)]


INPUT = pl.tensor(np.random.default_rng(12).normal(size=(1024, 32)).astype("f"))
ACTIVATION = INPUT.array.nbytes


def run_all(x, layers):
    for each in layers:
        x = each(x)
    return x


# --- report


def test_report_counts_each_memory_once():
    x = pl.ones(100, dtype=pl.float64, requires_grad=True)
    y = x.exp()
    loss = (y * y.reshape(10, 10).reshape(100) + y.sin()).sum()
    ledger = memory.report(loss)
    assert ledger.total == 800
    assert ledger.arrays == 1
    assert ledger.by_operation() == {"exp": 800}


def test_leaves_are_listed_apart():
    x = pl.ones(100, dtype=pl.float64)
    w = pl.ones(100, dtype=pl.float64, requires_grad=True)
    ledger = memory.report(((x * w) * w).sum())
    assert ledger.leaves == 800
    assert ledger.total == 1600  # x, which requires no grad, and the product


def test_by_line_and_table():
    x = pl.ones(1000, requires_grad=True)
    a = x.exp()
    b = a.sin()
    ledger = memory.report(b.sum())
    ((place, size),) = ledger.by_line().items()
    assert place.filename == __file__
    assert place.source == "a = x.exp()"
    assert size == 4000
    lines = str(ledger).splitlines()
    assert lines[0] == "saved for backward: 3.9 KB in 1 arrays"
    assert lines[1].split() == ["kept", "share", "arrays", "operation", "line"]
    assert "100%" in lines[2]
    assert "test_memory.py" in lines[2]


def test_view_keeps_the_whole_block_alive():
    x = pl.ones(1000, 10, requires_grad=True)
    part = x.exp()[0]
    assert memory.report((part * part).sum()).total == 40_000


def test_several_roots_and_nothing_to_report():
    x = pl.ones(10, requires_grad=True)
    assert memory.report([x.exp(), x.exp()]).arrays == 2
    empty = memory.report(pl.ones(3))
    assert (empty.total, str(empty)) == (0, "saved for backward: 0 B in 0 arrays")


def test_backward_frees_what_was_saved():
    x = pl.ones(10, requires_grad=True)
    y = x.exp()
    loss = (y * y).sum()
    assert memory.report(loss).total == 40
    loss.backward()
    assert memory.report(loss).total == 0


def test_intermediates_die_with_backward():
    gc.disable()
    try:
        x = pl.ones(10, requires_grad=True)
        y = x.exp()
        loss = y.sin().sum()
        array = weakref.ref(y.array)
        del y
        assert array() is not None
        loss.backward()
        assert array() is None
        assert x.grad is not None
    finally:
        gc.enable()


def test_report_shows_checkpoints():
    x = pl.ones(1000, requires_grad=True).reshape(10, 100) + 0.5
    loss = checkpoint(lambda t: t.exp().sin().cos(), x).sum()
    ledger = memory.report(loss)
    assert ledger.by_operation() == {"checkpoint": 4000}
    assert ledger.recomputed == 3
    assert "3 values are recomputed" in str(ledger)


# --- track


def test_track_measures_the_peak_and_the_rest():
    with memory.track() as used:
        a = np.ones(500_000)
        b = a + 1
        del b
    assert 8_000_000 <= used.peak < 8_100_000
    assert 4_000_000 <= used.end < 4_100_000
    assert "peak 7.6 MB" in repr(used)
    assert a.size


def test_timeline_rises_in_forward_and_falls_in_backward():
    x = pl.ones(50_000, requires_grad=True)
    with memory.track(timeline=True) as used:
        y = x
        for _ in range(10):
            y = y.sin()
        loss = y.sum()
        middle = len(used.timeline)
        del y
        loss.backward()
    forward, backward = used.timeline[:middle], used.timeline[middle:]
    assert forward == sorted(forward)
    assert forward[-1] > 9 * 200_000
    assert backward[-1] < forward[-1] / 2
    assert max(used.timeline) <= used.peak


# --- plan


def test_all_layers_are_kept_without_checkpointing():
    def deep(depth):
        x = y = pl.ones(100, requires_grad=True)
        for _ in range(depth):
            y = y.sin()
        ledger = memory.report(y.sum())
        assert ledger.leaves == x.array.nbytes
        return ledger.total

    assert deep(80) == 79 * 400  # every input but the first, which is a leaf
    assert deep(80) > 7 * deep(12)


def test_prediction_is_what_the_graph_keeps():
    layers = blocks()
    plan = memory.plan(layers, INPUT)
    x = pl.tensor(INPUT.numpy(), requires_grad=True)
    assert plan.predicted[1] == pytest.approx(memory.report(run_all(x, layers).sum()).total, rel=0.02)
    for k in (2, 3, 4, 6):
        kept = memory.report(checkpoint_sequential(layers, k, x).sum())
        assert plan.predicted[k] == pytest.approx(kept.total + ACTIVATION, rel=0.05)


def test_checkpointing_saves_more_than_half_of_twelve_layers():
    plan = memory.plan(blocks(), INPUT, segments=[1, 3, 4])
    whole = plan.measured[1]
    assert 1 - plan.predicted[4] / plan.predicted[1] > 0.6
    assert 1 - plan.measured[3] / whole > 0.5
    assert 1 - plan.measured[4] / whole > 0.5
    assert plan.measured[1] == pytest.approx(plan.predicted[1], rel=0.25)
    assert "no checkpointing" in str(plan)
    assert "<- recommended" in str(plan)


def test_square_root_of_the_depth_is_recommended_for_equal_layers():
    steps = [lambda t: t.sin()] * 64
    plan = memory.plan(steps, pl.ones(1000))
    assert plan.recommended == 8
    assert plan.predicted[8] < plan.predicted[1] / 4  # O(√L) instead of O(L)


def test_plan_runs_and_leaves_gradients_alone():
    layers = blocks()
    plan = memory.plan(layers, INPUT)
    plan.measure(2)
    assert all(cell.cell_contents.grad is None for cell in layers[0].__closure__)
    assert plan.measure() == plan.measured[plan.recommended]
    assert plan.run(INPUT).tolist() == run_all(INPUT, layers).tolist()


def test_extra_work_is_about_one_forward():
    calls = []

    def counted(step):
        def run(x):
            calls.append(1)
            return step(x)

        return run

    steps = [counted(step) for step in blocks()]
    x = pl.tensor(INPUT.numpy(), requires_grad=True)
    checkpoint_sequential(steps, 4, x).sum().backward()
    assert len(calls) == 12 + 9  # every layer once, and the three checkpointed segments again
