"""Hooks: the same scenarios run here and in PyTorch; what PyTorch answered is written beside each."""

import gc
import math
import weakref

import pytest

import pellucid as pl
from pellucid import autograd
from pellucid.autograd import graph
from pellucid.core import modes


def chain(t):
    """x -> y = 3x -> z = y²."""
    x = t.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    return x, y, y * y


def noting(log, tag, answer=None):
    def hook(*args):
        log.append(tag)
        return answer(*args) if answer else None

    return hook


def order_of_hooks(t):
    x, y, z = chain(t)
    log = []
    y.retain_grad()
    y.register_hook(noting(log, "tensor 1", lambda g: g * 2))
    y.grad_fn.register_prehook(noting(log, "before", lambda gs: (gs[0] * 10,)))
    y.register_hook(noting(log, "tensor 2"))
    y.grad_fn.register_hook(noting(log, "after", lambda gi, go: tuple(None if g is None else g * 100 for g in gi)))
    z.sum().backward()
    return log, y.grad.tolist(), x.grad.tolist()


def leaf_hooks(t):
    x, y, z = chain(t)
    log = []
    x.register_hook(noting(log, "tensor", lambda g: g + 1))
    x.register_post_accumulate_grad_hook(noting(log, "accumulated"))
    node = y.grad_fn.next_functions[0][0]
    node.register_prehook(noting(log, "before", lambda gs: (gs[0] * 2,)))
    node.register_hook(lambda gi, go: log.append((gi, go[0].tolist())))
    z.sum().backward()
    return node.variable is x, log, x.grad.tolist()


def removed_while_running(t):
    _, y, z = chain(t)
    log, handles = [], []
    y.register_hook(lambda g: (log.append("a"), handles[0].remove())[1])
    handles.append(y.register_hook(noting(log, "b")))
    y.register_hook(noting(log, "c"))
    z.sum().backward(retain_graph=True)
    z.sum().backward()
    return log


def added_while_running(t):
    _, y, z = chain(t)
    log = []
    y.register_hook(lambda g: (log.append("a"), y.register_hook(noting(log, "new")))[0])
    z.sum().backward()
    return log


def same_hook_twice(t):
    _, y, z = chain(t)
    log = []
    hook = noting(log, "hook")
    y.register_hook(hook)
    y.register_hook(hook)
    z.sum().backward()
    return log


def handle_as_context(t):
    _, y, z = chain(t)
    log = []
    with y.register_hook(noting(log, "inside")):
        z.sum().backward(retain_graph=True)
    z.sum().backward()
    return log


def hook_on_the_root(t):
    x, _, z = chain(t)
    loss = z.sum()
    loss.register_hook(lambda g: g * 2)
    loss.retain_grad()
    loss.backward()
    return x.grad.tolist(), loss.grad.item()


def hooks_of_grad(t):
    _, y, z = chain(t)
    log = []
    y.register_hook(noting(log, "tensor", lambda g: g * 2))
    y.grad_fn.register_prehook(noting(log, "before"))
    (g,) = t.autograd.grad(z.sum(), [y])
    return g.tolist(), log


def retain_grad_with_grad(t):
    x, y, z = chain(t)
    y.retain_grad()
    t.autograd.grad(z.sum(), x)
    return y.grad.tolist(), x.grad


def retain_grad_follows_an_inplace_operation(t):
    x = t.tensor([1.0, 2.0], requires_grad=True)
    y = x * 1
    y.retain_grad()
    seen = []
    y.register_hook(lambda g: seen.append(("old", g.tolist())))
    y.mul_(5)
    y.register_hook(lambda g: seen.append(("new", g.tolist())))
    y.sum().backward()
    return y.grad.tolist(), seen


def create_graph_gives_tensors_with_graph(t):
    x, y, z = chain(t)
    seen = []
    y.register_hook(lambda g: (seen.append((g.requires_grad, t.is_grad_enabled())), g * x)[1])
    (g,) = t.autograd.grad(z.sum(), x, create_graph=True)
    (second,) = t.autograd.grad(g.sum(), x)
    return seen, g.tolist(), second.tolist()


def first_order_hooks_run_without_grad(t):
    _, y, z = chain(t)
    seen = []
    y.register_hook(lambda g: seen.append((g.requires_grad, t.is_grad_enabled())))
    z.sum().backward()
    return seen


def prehook_of_several_results(t):
    x = t.tensor([1.0, 2.0], requires_grad=True)
    a, b = x.unbind()
    seen = []
    a.grad_fn.register_prehook(lambda gs: seen.append([None if g is None else g.item() for g in gs]))
    (a * 3).backward(retain_graph=True)
    (a * 3 + b * 4).backward()
    return a.grad_fn.name(), seen, x.grad.tolist()


def multi_grad_all(t):
    x, y, z = chain(t)
    w = t.tensor([1.0, 1.0], requires_grad=True)
    log = []
    handle = t.autograd.graph.register_multi_grad_hook(
        (x, y, w), lambda gs: log.append([None if g is None else g.tolist() for g in gs])
    )
    z.sum().backward(retain_graph=True)
    (z * w).sum().backward(retain_graph=True)
    t.autograd.grad(z.sum(), y, retain_graph=True)
    handle.remove()
    z.sum().backward()
    return log


def multi_grad_any(t):
    x, y, z = chain(t)
    w = t.tensor([1.0, 1.0], requires_grad=True)
    log = []
    t.autograd.graph.register_multi_grad_hook((x, y, w), lambda g: log.append(g.tolist()), mode="any")
    z.sum().backward(retain_graph=True)
    (z * w).sum().backward()
    return log


def zeroing_after_accumulation(t):
    x = t.tensor([1.0], requires_grad=True)
    x.register_post_accumulate_grad_hook(lambda tensor: setattr(tensor, "grad", None))
    (x * 2).sum().backward()
    return x.grad


PYTORCH = [
    (order_of_hooks, (["tensor 1", "tensor 2", "before", "after"], [12.0, 24.0], [36000.0, 72000.0])),
    (leaf_hooks, (True, ["tensor", "before", "accumulated", ((), [38.0, 74.0])], [38.0, 74.0])),
    (removed_while_running, ["a", "b", "c", "a", "c"]),
    (added_while_running, ["a"]),
    (same_hook_twice, ["hook", "hook"]),
    (handle_as_context, ["inside"]),
    (hook_on_the_root, ([36.0, 72.0], 2.0)),
    (hooks_of_grad, ([12.0, 24.0], ["tensor"])),
    (retain_grad_with_grad, ([6.0, 12.0], None)),
    (retain_grad_follows_an_inplace_operation, ([1.0, 1.0], [("new", [1.0, 1.0]), ("old", [5.0, 5.0])])),
    (create_graph_gives_tensors_with_graph, ([(True, True), (False, False)], [18.0, 72.0], [36.0, 108.0])),
    (first_order_hooks_run_without_grad, [(False, False)]),
    (prehook_of_several_results, ("UnbindBackward0", [[3.0, None], [3.0, 4.0]], [6.0, 4.0])),
    (
        multi_grad_all,
        [
            [[18.0, 36.0], [6.0, 12.0], None],
            [[18.0, 36.0], [6.0, 12.0], [9.0, 36.0]],
            [None, [6.0, 12.0], None],
        ],
    ),
    (multi_grad_any, [[6.0, 12.0], [9.0, 36.0]]),
    (zeroing_after_accumulation, None),
]


@pytest.mark.parametrize(("scenario", "expected"), PYTORCH, ids=lambda value: getattr(value, "__name__", ""))
def test_scenario(scenario, expected):
    assert scenario(pl) == expected


@pytest.mark.torch
@pytest.mark.parametrize(("scenario", "expected"), PYTORCH, ids=lambda value: getattr(value, "__name__", ""))
def test_torch_answers_the_same(torch, scenario, expected):
    assert scenario(torch) == expected


# --- wrong hooks: the error, and nothing written

TENSOR_HOOKS = [
    (lambda g: 3, TypeError, "expected Variable, but hook returned 'int'"),
    (lambda g: (g,), TypeError, "expected Variable, but hook returned 'tuple'"),
    (lambda g: g.sum(), RuntimeError, "has changed the size of value"),
    (lambda g: g.double(), RuntimeError, "has changed the type of value"),
]
NODE_HOOKS = [
    (lambda *g: 3, TypeError, "expected tuple, but hook returned 'int'"),
    (lambda *g: (), RuntimeError, "has returned an incorrect number of values"),
    (lambda *g: (g[0][0].sum(), *g[0][1:]), RuntimeError, "has changed the size of value"),
]


def check_refused(t, register, error, message):
    x, y, z = chain(t)
    register(y)
    with pytest.raises(error, match=message):
        z.sum().backward()
    assert x.grad is None


@pytest.mark.parametrize(("hook", "error", "message"), TENSOR_HOOKS)
def test_wrong_tensor_hook(hook, error, message):
    check_refused(pl, lambda y: y.register_hook(hook), error, message)


@pytest.mark.parametrize(("hook", "error", "message"), NODE_HOOKS)
@pytest.mark.parametrize("kind", ["register_prehook", "register_hook"])
def test_wrong_node_hook(hook, error, message, kind):
    check_refused(pl, lambda y: getattr(y.grad_fn, kind)(hook), error, message)


@pytest.mark.torch
@pytest.mark.parametrize(("hook", "error", "message"), TENSOR_HOOKS)
def test_torch_refuses_the_same_tensor_hooks(torch, hook, error, message):
    check_refused(torch, lambda y: y.register_hook(hook), error, message)


@pytest.mark.torch
@pytest.mark.parametrize(("hook", "error", "message"), NODE_HOOKS)
@pytest.mark.parametrize("kind", ["register_prehook", "register_hook"])
def test_torch_refuses_the_same_node_hooks(torch, hook, error, message, kind):
    check_refused(torch, lambda y: getattr(y.grad_fn, kind)(hook), error, message)


def test_hooks_on_the_wrong_tensor():
    x, y, _ = chain(pl)
    with pytest.raises(RuntimeError, match="doesn't require gradient"):
        pl.ones(1).register_hook(print)
    with pytest.raises(RuntimeError, match="non-leaf"):
        y.register_post_accumulate_grad_hook(print)
    with pytest.raises(RuntimeError, match="requires_grad=False"):
        pl.ones(1).retain_grad()
    with pytest.raises(RuntimeError, match="multi-grad hook"):
        graph.register_multi_grad_hook((x, pl.ones(1)), print)
    with pytest.raises(ValueError, match="mode"):
        graph.register_multi_grad_hook((x,), print, mode="some")


@pytest.mark.parametrize("place", ["tensor", "before", "after", "accumulated", "multi"])
def test_failing_hook_leaves_every_gradient_as_it_was(place):
    def fail(*_):
        raise ZeroDivisionError(place)

    x, y, z = chain(pl)
    x.grad = pl.tensor([7.0, 7.0])
    {
        "tensor": lambda: y.register_hook(fail),
        "before": lambda: y.grad_fn.register_prehook(fail),
        "after": lambda: y.grad_fn.register_hook(fail),
        "accumulated": lambda: x.register_post_accumulate_grad_hook(fail),
        "multi": lambda: graph.register_multi_grad_hook((x, y), fail),
    }[place]()
    with pytest.raises(ZeroDivisionError, match=place):
        z.sum().backward()
    assert x.grad.tolist() == [7, 7]
    assert pl.is_grad_enabled()


def test_multi_hook_does_not_keep_the_graph_alive():
    gc.disable()
    try:
        x, y, z = chain(pl)
        handle = graph.register_multi_grad_hook((y,), lambda gs: None)
        node = weakref.ref(y.grad_fn)
        del y, z
        handle.remove()
        del handle
        assert node() is None
        assert x.grad is None
    finally:
        gc.enable()


# --- saved-tensor hooks and places in the graph


def test_saved_tensor_hooks_change_what_backward_uses():
    log = []

    def pack(tensor):
        log.append(tensor.tolist())
        return len(log)

    x = pl.tensor([2.0], requires_grad=True)
    w = pl.tensor([5.0], requires_grad=True)
    with graph.saved_tensors_hooks(pack, lambda number: pl.tensor([100.0 * number])):
        y = x * w
    y.backward()
    assert log == [[5.0], [2.0]]
    assert (x.grad.item(), w.grad.item()) == (100, 200)


def test_saved_tensor_hooks_nest_and_end():
    log = []
    x = pl.tensor([2.0], requires_grad=True)

    def named(name):
        return graph.saved_tensors_hooks(lambda t: (log.append(name), t)[1], lambda t: t)

    with named("outer"):
        x.exp()
        with named("inner"):
            x.exp()
        x.exp()
    x.exp()
    assert log == ["outer", "inner", "outer"]


def test_saved_tensor_hooks_can_be_disabled():
    with (
        graph.disable_saved_tensors_hooks("not here"),
        pytest.raises(RuntimeError, match="not here"),
        graph.saved_tensors_hooks(id, id),
    ):
        pass
    with graph.save_on_cpu():
        y = pl.ones(1, requires_grad=True).exp()
    y.backward()


def test_unpack_hook_must_return_a_tensor():
    x = pl.tensor([2.0], requires_grad=True)
    with graph.saved_tensors_hooks(lambda t: t, lambda t: 3):
        y = x.exp()
    with pytest.raises(TypeError, match="unpack hook must return a Tensor"):
        y.backward()
    assert x.grad is None


def test_gradient_edges():
    x, y, _ = chain(pl)
    assert graph.get_gradient_edge(y) == (y.grad_fn, 0, None)
    assert graph.get_gradient_edge(x).node.name() == "AccumulateGrad"
    second = pl.tensor([1.0, 2.0], requires_grad=True).unbind()[1]
    assert graph.get_gradient_edge(second).output_nr == 1
    with pytest.raises(RuntimeError, match="does not require"):
        graph.get_gradient_edge(pl.ones(1))


def test_increment_version():
    x = pl.ones(2, requires_grad=True) * 1
    y = x.exp() * x
    graph.increment_version(x)
    with pytest.raises(RuntimeError, match="increment_version"):
        y.sum().backward()


def test_mutation_of_saved_tensors():
    x = pl.tensor([1.0, 2.0], requires_grad=True)
    with graph.allow_mutation_on_saved_tensors():
        y = x.clone()
        z = (y * y).sum() + y.exp().sum()
        y.zero_()
    z.backward()
    assert x.grad.tolist() == pytest.approx([2 + math.e, 4 + math.e**2])


def test_gradients_at_places_in_the_graph(torch):
    def scenario(lib):
        x = lib.tensor([1.0, 2.0], requires_grad=True)
        y = x * x
        edges = [lib.autograd.graph.get_gradient_edge(each) for each in (x, y)]
        return [g.tolist() for g in lib.autograd.grad((y * 3).sum(), edges)]

    assert scenario(pl) == scenario(torch)


# --- autograd.grad and autograd.backward


def test_unused_input_is_named():
    x, y = pl.ones(2, requires_grad=True), pl.ones(3, 4, requires_grad=True)
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph") as caught:
        autograd.grad((x * x).sum(), (x, y))
    assert "input 1 of shape (3, 4), made at" in str(caught.value)
    assert __file__ in str(caught.value)
    used, unused = autograd.grad((x * x).sum(), (x, y), allow_unused=True)
    assert used.tolist() == [2, 2]
    assert unused is None
    assert autograd.grad((x * x).sum(), (x, y), materialize_grads=True)[1].tolist() == [[0] * 4] * 3
    with pytest.raises(ValueError, match="allow_unused"):
        autograd.grad((x * x).sum(), x, allow_unused=False, materialize_grads=True)


def test_grad_of_several_outputs_and_intermediates():
    x = pl.tensor([1.0, 2.0], requires_grad=True)
    y = x * x
    gx, gy = autograd.grad([y.sum(), (y * y).sum()], [x, y], [None, pl.tensor(10.0)])
    assert gx.tolist() == [42, 324]
    assert gy.tolist() == [21, 81]
    assert x.grad is None


def test_grad_refuses_bad_arguments():
    x = pl.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="does not require grad"):
        autograd.grad((x * x).sum(), pl.ones(2))
    with pytest.raises(RuntimeError, match="scalar outputs"):
        autograd.grad(x * x, x)
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        autograd.grad(x * x, x, pl.ones(3))
    with pytest.raises(RuntimeError, match="gradients"):
        autograd.grad([x.sum(), x.sum()], x, [pl.tensor(1.0)])
    with pytest.raises(RuntimeError, match="cannot be empty"):
        autograd.grad(x.sum(), [])


def test_batched_grads_are_rows_of_the_jacobian():
    x = pl.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (rows,) = autograd.grad(x**3, x, pl.eye(3), is_grads_batched=True)
    assert rows.tolist() == [[3, 0, 0], [0, 12, 0], [0, 0, 27]]


def test_backward_of_several_tensors():
    x = pl.tensor([1.0, 2.0], requires_grad=True)
    autograd.backward([(x * 3).sum(), x * x], [None, pl.tensor([1.0, 10.0])])
    assert x.grad.tolist() == [5, 43]
    y = pl.tensor(1.0, requires_grad=True)
    autograd.backward(y * 2, inputs=y)
    assert y.grad.item() == 2


def test_backward_with_inputs_fills_what_retains_its_gradient_on_the_way():
    x = pl.tensor([1.0, 2.0], requires_grad=True)
    y, z = x * 3, x * 4
    y.retain_grad()
    z.retain_grad()
    (y * y).sum().backward(inputs=[x])
    assert (y.grad.tolist(), z.grad) == ([6, 12], None)


def test_an_input_of_backward_that_is_no_leaf_retains_its_gradient_from_then_on():
    x = pl.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    (y * y).sum().backward(inputs=[y])
    assert (y.grad.tolist(), x.grad, y.retains_grad) == ([6, 12], None, True)
    y.sum().backward()
    assert (y.grad.tolist(), x.grad.tolist()) == ([7, 13], [3, 3])


def test_a_hook_that_packs_without_history_keeps_tangents():
    x = pl.tensor([1.0, 2.0], requires_grad=True)
    with graph.saved_tensors_hooks(lambda t: t.detach(), lambda t: t):
        jacobian = pl.func.jacfwd(lambda x: x * x * x)(x)
    jacobian.sum().backward()
    assert x.grad.tolist() == [6, 12]


def test_a_gradient_of_create_graph_has_memory_of_its_own():
    x, seed = pl.ones(2, requires_grad=True), pl.full((2,), 3.0)
    x.clone().backward(seed, create_graph=True)
    with pl.no_grad():
        x.grad.zero_()
    assert seed.tolist() == [3, 3]


def test_a_gradient_with_a_graph_is_added_to_in_place():
    x = pl.ones(2, requires_grad=True)
    (x * x).sum().backward(create_graph=True)
    held = x.grad
    x.sum().backward()
    assert x.grad is held
    assert held.tolist() == [3, 3]


def test_variable_is_a_tensor():
    v = autograd.Variable(pl.ones(2), requires_grad=True)
    assert v.requires_grad
    assert v.is_leaf


def test_custom_backward_is_not_run_when_nothing_behind_it_is_asked_for():
    ran = []

    class Noisy(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            ran.append(1)
            return g * 2

    y = Noisy.apply(pl.ones(1, requires_grad=True))
    autograd.grad(y * 3, y)
    assert not ran


def test_a_prehook_may_stop_a_gradient():
    x, y, z = chain(pl)
    y.grad_fn.register_prehook(lambda grads: (None,))
    (z + x).sum().backward()
    assert x.grad.tolist() == [1, 1]  # only what did not come through y


def test_a_node_hook_that_only_looks_changes_nothing():
    x, y, z = chain(pl)
    seen = []
    y.grad_fn.register_hook(lambda sent, came: seen.append((sent[0].tolist(), came[0].tolist())))
    z.sum().backward()
    assert seen == [([18, 36], [6, 12])] and x.grad.tolist() == [18, 36]


def test_a_post_accumulate_hook_returns_nothing():
    x, w = pl.ones(2, requires_grad=True), pl.ones(2, requires_grad=True)
    (x + w).sum().backward()
    x.register_post_accumulate_grad_hook(lambda t: t.grad)
    with pytest.raises(RuntimeError, match="should return None"):
        (x * w * 3).sum().backward()
    assert x.grad.tolist() == w.grad.tolist() == [1, 1]


def test_handles_and_nodes_tell_about_themselves():
    x, y, z = chain(pl)
    first, second = y.register_hook(lambda g: g * 10), y.register_hook(lambda g: g + 1)
    assert first.id != second.id
    first.remove()
    z.sum().backward()
    assert x.grad.tolist() == [21, 39]
    z.grad_fn.metadata["mine"] = 5
    assert z.grad_fn.metadata == {"mine": 5}
    assert "MulBackward0 object" in repr(z.grad_fn) and "test_hooks.py" in repr(z.grad_fn)


def test_a_post_accumulate_hook_may_change_its_parameter():
    """The optimizer inside the backward pass: what the hook does is no part of any graph."""

    def step(parameter):
        parameter.sub_(parameter.grad, alpha=0.1)

    weight = pl.ones(2, requires_grad=True)
    weight.register_post_accumulate_grad_hook(step)
    (weight * weight).sum().backward()
    assert pl.allclose(weight.detach(), pl.full((2,), 0.8)) and weight.is_leaf


def test_gradient_edges_of_any_dtype_and_of_several_results():
    def edge(tensor):
        return graph.get_gradient_edge(tensor)

    x = pl.tensor([1.0, 2.0], dtype=pl.float64, requires_grad=True)
    a, b = (x * 1).split(1)
    total = (3 * a + 5 * b * b).sum()
    at_a, at_b = pl.autograd.grad(total, (edge(a), edge(b)), retain_graph=True)
    assert at_a.tolist() == [3.0] and at_b.tolist() == [20.0] and at_b.dtype == pl.float64
    (slope,) = pl.autograd.grad(edge(b), x, pl.ones(1, dtype=pl.float64), retain_graph=True)
    assert slope.tolist() == [0.0, 1.0]
    y = x * 2
    by_hand = graph.GradientEdge(y.grad_fn, 0)
    assert by_hand == edge(y) and len({by_hand, edge(y)}) == 1
    assert pl.autograd.grad(y.sum(), by_hand)[0].dtype == pl.float64
    with pytest.raises(NotImplementedError, match="several results"):
        pl.autograd.grad(total, graph.GradientEdge(b.grad_fn, 1))


def test_a_pack_hook_leaves_its_value_alone_and_sees_no_numbers():
    x = pl.tensor([1.0, 2.0], requires_grad=True)
    seen = []
    with graph.saved_tensors_hooks(lambda t: seen.append(tuple(t.shape)) or t, lambda t: t):
        y = (x * 3).exp()
    assert seen == [(2,)]
    y.sum().backward()
    with (
        graph.saved_tensors_hooks(lambda t: t.add_(1), lambda t: t),
        pytest.raises(RuntimeError, match="pack hook is modifying its input"),
    ):
        x.exp()


def test_a_view_that_renews_its_history_still_retains_its_gradient():
    base = pl.ones(2, requires_grad=True).clone()
    view, other = base[:], base[:]
    view.retain_grad()
    other.retain_grad()
    view.mul_(2)
    (view + other).sum().backward()
    assert view.grad.tolist() == [1.0, 1.0] and other.grad.tolist() == [1.0, 1.0]


def test_backward_hooks_of_a_module_are_not_called_by_a_second_derivative():
    calls = []
    loss = pl.nn.MSELoss()
    loss.register_full_backward_hook(lambda *_: calls.append(1))
    x = pl.ones(1, requires_grad=True)
    (slope,) = pl.autograd.grad(loss(x, pl.zeros(1)), x, create_graph=True)
    assert pl.autograd.grad(slope, x)[0].tolist() == [2.0]
    assert len(calls) == 1


def test_hooks_of_one_saved_tensor():
    x = pl.tensor([1.0, 2.0], requires_grad=True)
    y = x * x
    y.grad_fn._raw_saved_self.register_hooks(lambda kept: 2 * kept, lambda packed: packed)
    assert y.grad_fn._saved_self.tolist() == [2.0, 4.0] and y.grad_fn._saved_other is x
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 6.0]
    with pytest.raises(RuntimeError, match="second time"):
        y.grad_fn._raw_saved_self.register_hooks(lambda t: t, lambda t: t)
    saved = x.exp().grad_fn._raw_saved_result
    with pytest.raises(RuntimeError, match="modifying its input"):
        saved.register_hooks(lambda t: t.mul_(2), lambda t: t)
    with pytest.raises(TypeError, match="incompatible"):
        saved.register_hooks(1, 1)
    saved.register_hooks(lambda t: t, lambda t: t)
    with pytest.raises(RuntimeError, match="already been set"):
        saved.register_hooks(lambda t: t, lambda t: t)
    with pytest.raises(AttributeError, match="_raw_saved_other"):
        x.exp().grad_fn._raw_saved_other


def test_hooks_of_what_a_custom_function_saved():
    class Keep(pl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, None)
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    x = pl.tensor([1.0, 2.0], requires_grad=True)
    y = Keep.apply(x)
    first, second = y.grad_fn._raw_saved_tensors
    first.register_hooks(lambda t: t.tolist(), lambda packed: 10 * pl.tensor(packed))
    with pytest.raises(RuntimeError, match="None is forbidden"):
        second.register_hooks(lambda t: t, lambda t: t)
    y.sum().backward()
    assert x.grad.tolist() == [10.0, 20.0]


def test_mutation_of_saved_tensors_is_allowed_once():
    with (
        graph.allow_mutation_on_saved_tensors(),
        pytest.raises(RuntimeError, match="cannot be nested"),
        graph.allow_mutation_on_saved_tensors(),
    ):
        pass
    with graph.allow_mutation_on_saved_tensors():
        pass


def test_an_observer_is_told_of_the_same_gradients_on_the_straight_way_and_beside_others():
    class Watch:
        def __init__(self):
            self.told = []

        def operation(self, *call):
            pass

        def gradient(self, node, g, parent, d):
            self.told.append((node.name(), parent.name(), d.copy()))

    def edges(*watches):
        x, w = pl.ones(3, 2, requires_grad=True), pl.full((2,), 2.0, requires_grad=True)
        with modes.switched(observers=watches):
            h = (x * w).tanh()
            ((h[:, :1] @ h[:, 1:].T).sum() + w.sum() * w.sum()).backward()
        return watches[0].told

    alone, beside = edges(Watch()), edges(Watch(), Watch())
    with autograd.detect_anomaly():
        carefully = edges(Watch())
    assert len(alone) > 8
    for other in (beside, carefully):
        assert [edge[:2] for edge in alone] == [edge[:2] for edge in other]
        assert all((mine[2] == theirs[2]).all() for mine, theirs in zip(alone, other, strict=True))
