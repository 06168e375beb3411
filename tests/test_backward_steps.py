"""The backward pass one step at a time: the same numbers as backward(), and nothing changes until commit()."""

import gc
import math

import numpy as np
import pytest

import pellucid
from pellucid import nn
from pellucid.testing import graphs


def scalar(value):
    return pellucid.tensor(value, requires_grad=True)


def run(program):
    names, loss = graphs.forward(program, pellucid, program.values())
    return [names[name] for name, _ in program.leaves], loss


def bits(array):
    return array.shape, array.dtype, array.tobytes()


# --- the same numbers


@pytest.mark.parametrize(("kind", "dtype"), [("graph", "float64"), ("graph", "float32"), ("alias", "float64")])
def test_gradients_are_those_of_backward_bit_for_bit(kind, dtype):
    checked = 0
    for index in range(40):
        program = graphs.replace(graphs.write(kind, 3, index), dtype=dtype)
        try:
            twins, twin_loss = run(program)
            twin_loss.backward()
        except RuntimeError:  # an alias program may rightly be refused
            continue
        leaves, loss = run(program)
        steps = pellucid.backward_steps(loss)
        for _ in steps:
            pass
        assert all(leaf.grad is None for leaf in leaves)
        assert len(steps.grads) == sum(twin.grad is not None for twin in twins)
        for leaf, twin in zip(leaves, twins, strict=True):
            if twin.grad is not None:
                assert bits(steps.grads[leaf].array) == bits(twin.grad.array)
        steps.commit()
        for leaf, twin in zip(leaves, twins, strict=True):
            assert (leaf.grad is None) == (twin.grad is None)
            assert leaf.grad is None or bits(leaf.grad.array) == bits(twin.grad.array)
        checked += 1
    assert checked > 15


def small_model():
    pellucid.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.ReLU(), nn.Linear(4, 2))
    loss = nn.functional.cross_entropy(model(pellucid.randn(8, 3)), pellucid.tensor([0, 1] * 4))
    return model, loss


def test_a_model_gets_the_gradients_of_backward():
    model, loss = small_model()
    twin, twin_loss = small_model()
    twin_loss.backward()
    pellucid.backward_steps(loss).commit()
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        assert bits(ours.grad.array) == bits(theirs.grad.array)


def test_commit_accumulates_once_and_leaves_the_graph():
    x = scalar(3.0)
    loss = x * x
    steps = pellucid.backward_steps(loss)
    steps.commit()
    with pytest.raises(RuntimeError, match="called before"):
        steps.commit()
    pellucid.backward_steps(loss).commit()
    assert x.grad.item() == 12
    loss.backward()
    assert x.grad.item() == 18


# --- what a step shows


def golden():
    a, b, c = scalar(2.0), scalar(3.0), scalar(4.0)
    loss = (a * b + c) * (a - c)
    return a, b, c, loss


def test_golden_numbers_step_by_step():
    a, b, c, loss = golden()
    steps = pellucid.backward_steps(loss)
    seen = [(step.op, step.grad.item(), [d.item() for d in step.local], dict(step.outgoing)) for step in steps]
    assert [(op, g, local) for op, g, local, _ in seen] == [
        ("mul", 1.0, [-2.0, 10.0]),
        ("sub", 10.0, [1.0, -1.0]),
        ("add", -2.0, [1.0, 1.0]),
        ("mul", -2.0, [3.0, 2.0]),
    ]
    assert [steps.grads[leaf].item() for leaf in (a, b, c)] == [4.0, -4.0, -12.0]
    assert repr(steps).endswith("4 steps taken, finished>")


def test_a_step_is_one_sentence_with_numbers():
    a, b, c = scalar(2.0), scalar(3.0), scalar(4.0)
    h = a * b + c
    loss = h * (a - c)
    first, *_, last = [str(step) for step in pellucid.backward_steps(loss)]
    assert first.endswith(": ∂loss/∂h = 1 × (-2) = -2; ∂loss/∂(a - c) = 1 × 10 = 10")
    assert "mul in loss at " in first and "test_backward_steps.py:" in first
    assert last.endswith("∂loss/∂a = -2 × 3 = -6 (total so far 4); ∂loss/∂b = -2 × 2 = -4")


def test_names_places_modules_and_totals():
    model, loss = small_model()
    assert isinstance(model, nn.Module)  # by its name here the steps know it
    steps = list(pellucid.backward_steps(loss))
    assert steps[0].module == "" and steps[0].place.source.startswith("loss = ")
    linear = steps[-1]
    assert linear.module == "model.0" and linear.op == "linear"
    assert [name for name, _ in linear.outgoing] == ["model.0.weight", "model.0.bias"]
    assert [g.shape for _, g in linear.accumulated] == [(4, 3), (4,)]
    assert "linear of model.0" in str(linear) and "shape (4, 3)" in str(linear)


def test_totals_grow_and_earlier_steps_keep_theirs():
    x = pellucid.ones(2, requires_grad=True)
    y = (x * 1.0 + x * 2.0) + (x * 3.0 + x * 4.0)
    totals = [
        total.array[0]
        for step in list(pellucid.backward_steps(y.sum()))
        for name, total in step.accumulated
        if name == "x"
    ]
    assert totals == [4.0, 7.0, 9.0, 10.0]


def test_local_derivatives_by_kind_of_operation():
    x = pellucid.tensor([[0.5, 2.0]], requires_grad=True)
    w = pellucid.ones(2, 2, requires_grad=True)
    loss = ((x.exp() @ w) * pellucid.ones(3, 1)).sum()
    total, product, matmul, exponential = pellucid.backward_steps(loss)
    assert total.local == ["spread over what was summed: () → (3, 2)"]
    assert product.local[0].shape == (3, 2)  # the derivative of each element, before it is summed over the broadcast
    assert product.outgoing[0][1].shape == (1, 2)
    assert matmul.local[1] == "times the other factor, transposed: (1, 2) → (2, 2)"
    assert np.allclose(exponential.local[0].array, np.exp(x.array))


def test_several_results_are_one_step():
    x = pellucid.tensor([[3.0, 1.0], [2.0, 5.0]], requires_grad=True)
    first, second = x.unbind(0)
    steps = pellucid.backward_steps((first * second).sum())
    shown = list(steps)
    assert [step.op for step in shown] == ["sum", "mul", "unbind"]
    assert shown[2].grad.tolist() == [2.0, 5.0, 3.0, 1.0]
    assert [g.tolist() for g in shown[2].grads] == [[2.0, 5.0], [3.0, 1.0]]
    assert isinstance(shown[2].local[0], str) and "x" in str(shown[2])
    assert steps.grads[x].tolist() == [[2.0, 5.0], [3.0, 1.0]]


def test_changing_what_a_step_shows_changes_nothing():
    x = pellucid.ones(2, requires_grad=True)
    steps = pellucid.backward_steps((x + x).sum())
    for step in steps:
        step.grad.fill_(99.0)
        for _, g in [*step.outgoing, *step.accumulated]:
            g.zero_()
    steps.grads[x].zero_()
    assert steps.grads[x].tolist() == [2.0, 2.0]


def test_a_function_of_the_user_runs_its_backward_once():
    calls = []

    class Twice(pellucid.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def backward(ctx, g):
            calls.append(g)
            return g * 2

    x = scalar(1.0)
    steps = pellucid.backward_steps(Twice.apply(x))
    (step,) = steps
    assert step.local == [None] and "∂loss/∂x = 2" in str(step)
    assert len(calls) == 1 and steps.grads[x].item() == 2


# --- breakpoints


def test_break_on_stops_only_where_it_is_true():
    x = pellucid.tensor([0.0, 1.0], requires_grad=True)
    loss = (x.sqrt() * x * 2).sum()
    steps = pellucid.backward_steps(loss, break_on=lambda step: any(not g.isfinite().all() for _, g in step.outgoing))
    step = next(steps)
    assert step.op == "sqrt"
    assert pellucid.backward_steps(loss, break_on=lambda step: step.op == "exp").finish()[x].shape == (2,)
    assert list(pellucid.backward_steps(loss, break_on=lambda step: step.grad.isnan().any())) == []


def test_finish_runs_past_breakpoints():
    _, _, c, loss = golden()
    steps = pellucid.backward_steps(loss, break_on=lambda step: True)
    next(steps)
    assert steps.finish()[c].item() == -12
    assert list(steps) == []


def test_gradients_arrive_one_after_the_other():
    a, b, c, loss = golden()
    steps = pellucid.backward_steps(loss)
    next(steps)
    assert len(steps.grads) == 0
    with pytest.raises(KeyError):
        steps.grads[a]
    next(steps)
    assert set(map(id, steps.grads)) == {id(a), id(c)} and steps.grads[a].item() == 10
    assert b not in steps.grads


# --- hooks, modes, errors


def test_hooks_act_as_in_backward():
    def build():
        x = pellucid.ones(2, requires_grad=True)
        h = x * 3
        h.register_hook(lambda g: g * 10)
        h.retain_grad()
        x.register_hook(lambda g: g + 1)
        return x, h, (h * h).sum()

    x, h, loss = build()
    twin, twin_h, twin_loss = build()
    twin_loss.backward()
    steps = pellucid.backward_steps(loss)
    steps.finish()
    assert x.grad is None and h.grad is None
    assert steps.grads[x].tolist() == twin.grad.tolist()
    steps.commit()
    assert x.grad.tolist() == twin.grad.tolist() and h.grad.tolist() == twin_h.grad.tolist()


def test_hooks_over_several_tensors_are_told_and_an_unfinished_walk_ends_quietly():
    a, b = scalar(1.0), scalar(2.0)
    seen = []
    handle = pellucid.autograd.graph.register_multi_grad_hook((a, b), lambda grads: seen.append(len(grads)))
    loss = a * b + a
    unfinished = pellucid.backward_steps(loss)
    next(unfinished)
    del unfinished
    gc.collect()
    pellucid.backward_steps(loss).finish()
    assert seen == [2]
    handle.remove()


def test_anomaly_mode_watches_the_steps():
    x = pellucid.tensor([0.0], requires_grad=True)
    loss = x.sqrt().sum()
    with pellucid.autograd.detect_anomaly():
        steps = pellucid.backward_steps(loss)
    with pytest.raises(RuntimeError, match="backward of sqrt"):
        steps.finish()


def test_gradient_seeds_the_walk():
    x = pellucid.ones(2, requires_grad=True)
    steps = pellucid.backward_steps(x * 2, gradient=pellucid.tensor([1.0, -1.0]))
    assert steps.finish()[x].tolist() == [2.0, -2.0]
    assert pellucid.backward_steps(x, gradient=pellucid.ones(2)).finish()[x].tolist() == [1.0, 1.0]


def test_what_cannot_be_walked_is_refused_at_once():
    x = pellucid.ones(2, requires_grad=True)
    y = x.exp()
    with pytest.raises(TypeError, match="takes a tensor, not a float"):
        pellucid.backward_steps(y.sum().item())
    with pytest.raises(RuntimeError, match="only for scalar outputs"):
        pellucid.backward_steps(y)
    with pytest.raises(RuntimeError, match="does not require grad"):
        pellucid.backward_steps(y.detach().sum())
    loss = y.sum()
    loss.backward()
    with pytest.raises(RuntimeError, match=r"backward_steps needs the graph(.*\n)*.*loss\.backward\(\)"):
        pellucid.backward_steps(loss)


def test_a_reentrant_checkpoint_is_refused_and_writes_nothing():
    from pellucid.utils.checkpoint import checkpoint

    x, w = scalar(1.0), scalar(2.0)
    with pytest.raises(RuntimeError, match="use_reentrant=False"):
        pellucid.backward_steps(checkpoint(lambda t: t * w, x, use_reentrant=True)).finish()
    assert w.grad is None
    assert pellucid.backward_steps(checkpoint(lambda t: (t * w).exp(), x, use_reentrant=False)).finish()[
        w
    ].item() == pytest.approx(math.exp(2))


def test_it_reads_well_in_a_debugger():
    _, _, _, loss = golden()
    steps = pellucid.backward_steps(loss)
    assert repr(steps) == "<backward_steps of loss: 0 steps taken, next: mul>"
    assert repr(next(steps)).startswith("<Step mul in loss at ")
    assert repr(steps.finish()).startswith("{the tensor made at ")
