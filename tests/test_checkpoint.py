"""Checkpointing: the same bits with less memory, one recomputation, and a divergence that names the operation."""

import gc
import threading
import weakref

import numpy as np
import pytest

import pellucid as pl
from pellucid import memory
from pellucid.autograd import Function, grad
from pellucid.errors import CheckpointError, InplaceError
from pellucid.utils.checkpoint import (
    checkpoint,
    checkpoint_sequential,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
)

FORMS = pytest.mark.parametrize("use_reentrant", [False, True, None])


def layer(seed, size=8):
    draw = np.random.default_rng(seed)
    w = pl.tensor(draw.normal(size=(size, size)), requires_grad=True)
    b = pl.tensor(draw.normal(size=size), requires_grad=True)

    def run(x):
        return (x @ w + b).tanh() * x.sigmoid() + x

    return run, [w, b]


def stack(depth):
    layers, parameters = [], []
    for seed in range(depth):
        run, own = layer(seed)
        layers.append(run)
        parameters += own
    return layers, parameters


def chain(layers):
    def run(x):
        for each in layers:
            x = each(x)
        return x

    return run


def leaf(shape=(5, 8)):
    return pl.tensor(np.random.default_rng(99).normal(size=shape), requires_grad=True)


def bits(parameters, x, loss):
    for tensor in (*parameters, x):
        tensor.grad = None
    loss.backward()
    return [loss.item(), *(tensor.grad.numpy().tobytes() for tensor in (*parameters, x))]


# --- the same values and gradients, to the bit


@FORMS
def test_same_bits(use_reentrant):
    layers, parameters = stack(4)
    x, run = leaf(), chain(layers)
    plain = bits(parameters, x, run(x).sum())
    assert bits(parameters, x, checkpoint(run, x, use_reentrant=use_reentrant).sum()) == plain


@FORMS
@pytest.mark.parametrize("segments", [1, 2, 3, 7, 9])
def test_sequential_same_bits(use_reentrant, segments):
    layers, parameters = stack(7)
    x = leaf()
    plain = bits(parameters, x, chain(layers)(x).sum())
    assert bits(parameters, x, checkpoint_sequential(layers, segments, x, use_reentrant=use_reentrant).sum()) == plain


def test_nested_same_bits():
    layers, parameters = stack(4)
    x = leaf()

    def inner(y):
        return checkpoint(layers[1], layers[0](y)) * 2

    def outer(y):
        return layers[3](checkpoint(inner, layers[2](y)))

    plain = bits(parameters, x, layers[3](layers[1](layers[0](layers[2](x))) * 2).sum())
    assert bits(parameters, x, checkpoint(outer, x).sum()) == plain


def test_reentrant_inside_plain_form():
    layers, parameters = stack(2)
    x = leaf()
    plain = bits(parameters, x, chain(layers)(x).sum())

    def run(y):
        return layers[1](checkpoint(layers[0], y, use_reentrant=True))

    assert bits(parameters, x, checkpoint(run, x).sum()) == plain


def test_second_order():
    layers, _ = stack(2)
    x, run = leaf(), chain(layers)

    def second(f):
        (first,) = grad(f(x).sum(), x, create_graph=True)
        return grad((first * first).sum(), x)[0].numpy().tobytes()

    assert second(lambda y: checkpoint(run, y)) == second(run)


def test_several_outputs_keywords_and_constants():
    def run(x, factor, *, shift):
        return x * factor + shift, "text", x.exp()

    x, shift = leaf(), pl.ones(8, dtype=pl.float64, requires_grad=True)
    a, text, b = checkpoint(run, x, 3.0, shift=shift)
    assert text == "text"
    (a.sum() + b.sum()).backward()
    np.testing.assert_array_equal(x.grad.numpy(), 3 + np.exp(x.detach().numpy()))
    assert shift.grad.tolist() == [5] * 8


def test_custom_function_inside():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return 2 * ctx.saved_tensors[0] * g

    x = leaf()
    loss = checkpoint(lambda y: Square.apply(y.exp()).sin(), x).sum()
    loss.backward()
    ours = x.grad.numpy().copy()
    x.grad = None
    (x.exp() * x.exp()).sin().sum().backward()
    np.testing.assert_allclose(ours, x.grad.numpy(), rtol=1e-12)


def test_without_grad_it_is_a_plain_call():
    x = leaf()
    with pl.no_grad():
        y = checkpoint(lambda t: t.exp(), x)
    assert y.grad_fn is None


@FORMS
def test_random_numbers_are_drawn_again(use_reentrant):
    random = pytest.importorskip("pellucid.random")
    x = leaf()

    def run(y):
        return y * pl.rand(5, 8, dtype=pl.float64)

    random.manual_seed(3)
    run(x).sum().backward()
    expected, after = x.grad.tolist(), pl.rand(3).tolist()
    x.grad = None
    random.manual_seed(3)
    loss = checkpoint(run, x, use_reentrant=use_reentrant).sum()
    pl.rand(11)
    state = random.get_rng_state()
    loss.backward()
    assert x.grad.tolist() == expected
    assert random.get_rng_state().tolist() == state.tolist()
    assert len(after) == 3


# --- how often it runs


def counting(calls):
    def run(x):
        calls.append("begin")
        y = x.exp().sin().cos()
        calls.append("end")
        return y.sum()

    return run


def test_one_recomputation_that_stops_early():
    calls = []
    loss = checkpoint(counting(calls), leaf())
    assert calls == ["begin", "end"]
    loss.backward()
    assert calls == ["begin", "end", "begin"]


def test_early_stop_can_be_switched_off():
    calls = []
    with set_checkpoint_early_stop(False):
        loss = checkpoint(counting(calls), leaf())
    loss.backward()
    assert calls == ["begin", "end"] * 2


def test_backward_twice():
    calls, x = [], leaf()
    loss = checkpoint(counting(calls), x)
    loss.backward(retain_graph=True)
    once = x.grad.numpy().copy()
    loss.backward()
    assert calls.count("begin") == 3
    np.testing.assert_array_equal(x.grad.numpy(), 2 * once)
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_threads_share_a_graph():
    layers, parameters = stack(3)
    x = leaf()
    loss = checkpoint_sequential(layers, 3, x).sum()
    expected = [g.tolist() for g in grad(loss, (x, *parameters), retain_graph=True)]
    results = []

    def work():
        for _ in range(5):
            results.append([g.tolist() for g in grad(loss, (x, *parameters), retain_graph=True)])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 20


def test_context_functions_are_entered():
    entered = []

    class Around:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            entered.append(self.name)

        def __exit__(self, *error):
            pass

    checkpoint(lambda y: y.exp().sum(), leaf(), context_fn=lambda: (Around("first"), Around("again"))).backward()
    assert entered == ["first", "again"]


# --- divergence


def changing(*versions):
    runs = iter(versions)
    return lambda x: next(runs)(x).sum()


@pytest.mark.parametrize(
    ("first", "again", "message"),
    [
        (lambda x: x.exp(), lambda x: x.sin(), "different metadata.*value 0, exp then, sin now"),
        (lambda x: x.exp(), lambda x: x[:2].exp(), r"different metadata(.|\n)*\(5, 8\)(.|\n)*\(2, 8\)"),
        (lambda x: x.exp(), lambda x: x.float().exp(), r"different metadata(.|\n)*float64(.|\n)*float32"),
        (lambda x: x.exp().sin(), lambda x: x.exp(), r"different number of tensors.*2 then, 1 now(.|\n)*missing: sin"),
    ],
)
def test_divergence_names_the_operation(first, again, message):
    x = leaf()
    loss = checkpoint(changing(first, again), x)
    with pytest.raises(CheckpointError, match=message) as caught:
        loss.backward()
    assert __file__ in str(caught.value)
    assert x.grad is None


def test_more_values_than_before():
    x = leaf()
    loss = checkpoint(changing(lambda x: x.exp(), lambda x: x.exp().sin()), x, early_stop=False)
    with pytest.raises(CheckpointError, match=r"1 then, 2 now(.|\n)*new: sin"):
        loss.backward()


def test_debug_lists_both_runs():
    loss = checkpoint(changing(lambda x: x.exp().sin(), lambda x: x.exp().cos()), leaf(), debug=True)
    with pytest.raises(CheckpointError, match=r"forward:(.|\n)*sin keeps(.|\n)*again:(.|\n)*cos keeps"):
        loss.backward()
    loss = checkpoint(changing(lambda x: x.exp(), lambda x: x.cos()), leaf())
    with set_checkpoint_debug_enabled(True), pytest.raises(CheckpointError, match="again:"):
        loss.backward()


def test_check_can_be_switched_off():
    x = leaf()
    checkpoint(changing(lambda x: x.sin(), lambda x: x.cos()), x, determinism_check="none").backward()
    assert x.grad is not None


@pytest.mark.parametrize("when", ["inside", "after"])
def test_overwritten_argument_is_an_error(when):
    z = leaf() * 1

    def run(y):
        if when == "inside":
            y.mul_(2)
        return y.exp() * y

    loss = checkpoint(run, z).sum()
    if when == "after":
        z.mul_(2)
    with pytest.raises(InplaceError, match="an argument was overwritten by mul_") as caught:
        loss.backward()
    assert str(caught.value).count(__file__) == 2


def test_overwritten_parameter_is_an_error():
    w = pl.ones(8, dtype=pl.float64, requires_grad=True)
    loss = checkpoint(lambda y: y * w, leaf()).sum()
    with pl.no_grad():
        w.mul_(2)
    with pytest.raises(InplaceError, match="that mul keeps was overwritten by mul_"):
        loss.backward()


def test_in_place_operations_of_the_segment_itself():
    x, w = leaf(), pl.full((8,), 2.0, dtype=pl.float64, requires_grad=True)

    def run(y):
        z = (y * 3).mul_(w)
        z.sin_()
        z[1:3].mul_(y[1:3])
        return z.exp_().sum()

    plain = bits([w], x, run(x))
    assert bits([w], x, checkpoint(run, x)) == plain


def test_value_overwritten_by_the_segment_itself():
    x = leaf()
    loss = checkpoint(lambda y: (y.exp().add_(1) * y).sum(), x)
    with pytest.raises(InplaceError, match="a value that exp keeps was overwritten by add_"):
        loss.backward()
    assert x.grad is None


def test_exception_of_the_second_run_passes_and_the_state_is_kept():
    x = leaf()
    x.grad = pl.ones(5, 8, dtype=pl.float64)

    def fail(_):
        raise ZeroDivisionError("again")

    loss = checkpoint(changing(lambda y: y.exp(), fail), x)
    with pytest.raises(ZeroDivisionError, match="again"):
        loss.backward()
    assert (x.grad.numpy() == 1).all()
    assert pl.is_grad_enabled()


def test_wrong_arguments():
    x = leaf()
    with pytest.raises(ValueError, match="determinism_check"):
        checkpoint(pl.exp, x, determinism_check="some")
    with pytest.raises(ValueError, match="Unexpected keyword arguments"):
        checkpoint(pl.exp, x, use_reentrant=True, shift=3)
    with pytest.raises(ValueError, match="only supported when use_reentrant=False"):
        checkpoint(pl.exp, x, use_reentrant=True, debug=True)


def test_reentrant_form_refuses_what_it_cannot_do():
    x = leaf()
    loss = checkpoint(lambda y: y.exp(), x, use_reentrant=True).sum()
    with pytest.raises(RuntimeError, match=r"incompatible with \.grad\(\)"):
        grad(loss, x)
    with pytest.raises(RuntimeError, match="incompatible"):
        loss.backward(inputs=[x])
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        checkpoint(lambda y: y.exp(), x.detach(), use_reentrant=True)


# --- memory


def test_activations_are_not_kept():
    seen = []

    def run(x):
        y = x.exp()
        seen.append(weakref.ref(y.array))
        return (y * y).sin()

    gc.disable()
    try:
        loss = checkpoint(run, leaf()).sum()
        assert seen[0]() is None
        loss.backward()
        assert seen[1]() is None
    finally:
        gc.enable()


@FORMS
def test_memory_drops(use_reentrant):
    def run(x):
        for _ in range(20):
            x = (x * x).sin()
        return x

    x = pl.ones(50_000, dtype=pl.float64, requires_grad=True)
    with memory.track() as plain:
        loss = run(x).sum()
    kept = plain.end
    del loss
    with memory.track() as saved:
        loss = checkpoint(run, x, use_reentrant=use_reentrant).sum()
    assert kept > 10_000_000
    assert saved.end < kept / 10
    loss.backward()


def test_nested_checkpoint_keeps_the_outermost_input_only():
    def run(x):
        return checkpoint(lambda y: y.exp().sin(), x.exp().neg()).cos()

    x = leaf()
    loss = checkpoint(run, x)
    ledger = memory.report(loss.sum())
    assert ledger.total == 0
    assert ledger.leaves == 5 * 8 * 8


@pytest.mark.parametrize("early_stop", [False, True])
def test_backward_inside_a_checkpointed_function(early_stop):
    def slope(x):
        y = x.sin().sin()
        return grad(y.sum(), x, create_graph=True)[0].exp()

    x = leaf()
    expected = grad(slope(x).sum(), x)[0]
    with set_checkpoint_early_stop(early_stop):
        found = grad(checkpoint(slope, x, use_reentrant=False).sum(), x)[0]
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("transform", ["vmap", "nested", "jvp", "outside"])
def test_transforms_in_and_around_a_checkpointed_function(transform):
    def rows(row):
        return (row.sin() * row.exp()).cumsum(0)

    def inside(x):
        if transform == "jvp":
            return pl.func.jvp(lambda x: rows(x[0]) * x[1].sin(), (x,), (pl.ones_like(x.detach()),))[1]
        mapped = pl.func.vmap(rows)
        return pl.func.vmap(mapped)(x[None])[0] if transform == "nested" else mapped(x)

    def run(checkpointing):
        x = leaf()

        def segment(x):
            return checkpoint(inside, x, use_reentrant=False) if checkpointing else inside(x)

        y = pl.func.vmap(segment)(x[None]) if transform == "outside" else segment(x)
        return grad(y.sum(), x)[0]

    assert run(True).tolist() == run(False).tolist()
