"""Captured programs: replay equals eager bit for bit, for every operation and for whole training steps."""

import copy
import gc
import inspect
import re
import threading
import warnings
from collections import namedtuple

import numpy as np
import pytest

import pellucid as torch
from pellucid import autograd, func
from pellucid.compiler import capture
from pellucid.compiler.trace import Traced
from pellucid.compiler.trees import leaves, mapped
from pellucid.core.tensor import Node, Tensor, wrap
from pellucid.errors import CaptureError, InplaceError
from pellucid.utils.checkpoint import checkpoint


def tensor(*shape, seed=0, dtype="float32", requires_grad=False):
    made = wrap(np.random.default_rng(seed).standard_normal(shape).astype(dtype))
    return made.requires_grad_() if requires_grad else made


def copies(tree):
    """The same values in new leaves."""

    def one(leaf):
        if not isinstance(leaf, Tensor):
            return leaf
        made = wrap(leaf.array.copy(order="K"))
        return made.requires_grad_() if leaf.requires_grad else made

    return mapped(one, tree)


def tensors(tree):
    return [leaf for _, leaf in leaves(tree) if isinstance(leaf, Tensor)]


def bits(tree):
    """Everything about the tensors of a tree that replay must keep."""
    found = [(path, leaf.array) for path, leaf in leaves(tree) if isinstance(leaf, Tensor)]
    return [(path, str(array.dtype), array.shape, array.tobytes()) for path, array in found]


def gradients(tree):
    return [t._grad for t in tensors(tree)]


def assert_clean(*trees):
    for tree in trees:
        for t in tensors(tree):
            assert type(t.array) is np.ndarray
            assert t._grad is None or type(t._grad.array) is np.ndarray


def assert_replays(function, *inputs):
    """Capture on the first inputs; replay on all of them equals eager: results, gradients, inputs written to."""
    given = copies(inputs[0])
    program = capture(function, *given)
    program.verify()
    for i, case in enumerate(inputs):
        eager, replayed = copies(case), copies(case)
        expected, found = function(*eager), program(*replayed)
        assert_clean(expected, found, eager, replayed)
        assert bits(found) == bits(expected)
        assert bits(gradients(replayed)) == bits(gradients(eager))
        assert bits(replayed) == bits(eager)
        if i == 0:
            assert bits(gradients(given)) == bits(gradients(eager)), "the capturing run is an ordinary run"
    return program


# --- dtypes, scalars, forms of arguments


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_dtypes(dtype):
    def f(x, y):
        z = (x * y + 2.5).exp() / (y * y + 1)
        (z.sum() * 0.5).backward()
        return z

    a, b = tensor(4, 3, dtype=dtype, requires_grad=True), tensor(3, seed=1, dtype=dtype, requires_grad=True)
    c, d = tensor(4, 3, seed=2, dtype=dtype, requires_grad=True), tensor(3, seed=3, dtype=dtype, requires_grad=True)
    assert_replays(f, (a, b), (c, d))


# --- training steps


class Network:
    """A two-layer network whose updates are written by hand."""

    def __init__(self):
        sizes = [(4, 8), (8,), (8, 3), (3,)]
        self.weights = [tensor(*shape, seed=i, requires_grad=True) for i, shape in enumerate(sizes)]
        self.momentum = [wrap(np.zeros(shape, "float32")) for shape in sizes]

    def loss(self, x, y):
        a, b, c, d = self.weights
        difference = (x @ a + b).tanh() @ c + d - y
        return (difference * difference).mean()

    def step(self, x, y):
        for w in self.weights:
            w.grad = None
        loss = self.loss(x, y)
        loss.backward()
        with torch.no_grad():
            for w, m in zip(self.weights, self.momentum):
                m.mul_(0.9).add_(w.grad)
                w -= m * 0.05
        return loss


def batch(seed):
    return tensor(5, 4, seed=seed), tensor(5, 3, seed=seed + 1000)


def test_twenty_training_steps():
    eager, replayed = Network(), Network()
    program = capture(replayed.step, *batch(0))
    eager.step(*batch(0))
    for i in range(1, 21):
        assert bits(program(*batch(i))) == bits(eager.step(*batch(i)))
        assert bits(replayed.weights) == bits(eager.weights)
        assert bits(replayed.momentum) == bits(eager.momentum)
        assert bits(gradients(replayed.weights)) == bits(gradients(eager.weights))
    assert_clean(replayed.weights, replayed.momentum)


def test_eager_and_replay_alternate():
    eager, mixed = Network(), Network()
    program = capture(mixed.step, *batch(0))
    eager.step(*batch(0))
    for i in range(1, 7):
        (program if i % 2 else mixed.step)(*batch(i))
        eager.step(*batch(i))
    assert bits(mixed.weights) == bits(eager.weights)


def test_gradient_accumulation_adds_to_what_is_there():
    def accumulate(x):
        (w * x).sum().backward()

    w = tensor(3, requires_grad=True)
    w.grad = tensor(3, seed=5)
    program = capture(accumulate, tensor(3, seed=6))
    before, holder = w.grad.array.copy(), w.grad
    x = tensor(3, seed=7)
    program(x)
    assert w.grad is holder
    assert np.array_equal(w.grad.array, before + x.array)


def test_gradient_that_was_none_must_be_none_again():
    w = tensor(3, requires_grad=True)
    program = capture(lambda x: (w * x).sum().backward(), tensor(3, seed=1))
    kept = w.grad.array.copy()
    with pytest.raises(CaptureError, match=r"w\.grad is not None"):
        program(tensor(3, seed=2))
    assert np.array_equal(w.grad.array, kept)
    w.grad = None
    program(tensor(3, seed=2))
    assert np.array_equal(w.grad.array, tensor(3, seed=2).array)


@pytest.mark.parametrize("owner", ["optimizer", "module"])
def test_zero_grad_inside_says_where_the_gradients_start_although_there_are_none_yet(owner):
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x):
        (optimizer if owner == "optimizer" else model).zero_grad()
        loss = model(x).sum()
        loss.backward()
        return loss

    program = capture(step, torch.ones(3, 2))
    program(torch.ones(3, 2))  # was refused: the gradients are no longer None
    assert model.weight.grad.tolist() == [[3.0, 3.0]]


def test_two_backward_calls_inside():
    def f(x):
        (x * x).sum().backward()
        (x * x * x).sum().backward()
        return x.grad * 2

    assert_replays(f, (tensor(3, requires_grad=True),), (tensor(3, seed=1, requires_grad=True),))


def test_gradient_hooks_are_part_of_the_program():
    def f(x):
        y = x * x
        y.register_hook(lambda g: g * 3)
        y.retain_grad()
        y.sum().backward()
        return y.grad

    assert_replays(f, (tensor(3, requires_grad=True),), (tensor(3, seed=1, requires_grad=True),))


def test_second_order():
    def f(x):
        y = (x.sin() * x).sum()
        y.backward(create_graph=True)
        g = x.grad
        x.grad = None
        (g * g).sum().backward()
        return y.detach()

    assert_replays(f, (tensor(4, requires_grad=True),), (tensor(4, seed=1, requires_grad=True),))


def test_no_grad_region_and_detach():
    def f(x):
        with torch.no_grad():
            scale = x.exp()
        (x * scale + x.detach()).sum().backward()
        return scale

    assert_replays(f, (tensor(4, requires_grad=True),), (tensor(4, seed=1, requires_grad=True),))


def test_broadcasting_is_folded_back():
    def f(a, b, c):
        (a * b + c).sum().backward()

    cases = [
        tuple(tensor(*shape, seed=seed + i, requires_grad=True) for i, shape in enumerate([(2, 1, 3), (4, 1), ()]))
        for seed in (0, 10)
    ]
    assert_replays(f, *cases)


def test_capture_under_no_grad():
    with torch.no_grad():
        program = capture(lambda x: x * w, tensor(2))
    assert program.op_counts() == {"mul": 1}


w = tensor(2, seed=9, requires_grad=True)


# --- what else runs inside


W = tensor(3, 4, seed=3, requires_grad=True)


def features(row):
    return (row @ W).sin()


@pytest.mark.parametrize(
    "transformed",
    [
        lambda x: func.vmap(features)(x),
        lambda x: func.jvp(features, (x,), (x * 2,)),
        lambda x: func.grad(lambda y: features(y).sum())(x),
        lambda x: func.jacrev(features)(x),
        lambda x: func.jacfwd(features)(x),
        lambda x: func.hessian(lambda y: features(y).sum())(x),
        lambda x: func.vmap(func.grad(lambda y: features(y).sum()))(x),
    ],
    ids=["vmap", "jvp", "grad", "jacrev", "jacfwd", "hessian", "vmap of grad"],
)
def test_transforms_inside(transformed):
    assert_replays(transformed, (tensor(2, 3),), (tensor(2, 3, seed=1),))


class Cube(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x * x


def test_custom_function_inside():
    def f(x):
        y = Cube.apply(x)
        y.sum().backward()
        return y

    assert_replays(f, (tensor(3, requires_grad=True),), (tensor(3, seed=1, requires_grad=True),))


def test_checkpoint_inside():
    def f(x):
        y = checkpoint(lambda z: (z.sin() * z).exp(), x, use_reentrant=False)
        y.sum().backward()
        return y

    assert_replays(f, (tensor(3, requires_grad=True),), (tensor(3, seed=1, requires_grad=True),))


def test_gradients_by_hand_inside():
    def f(x):
        (g,) = autograd.grad((x * x * x).sum(), x, create_graph=True)
        (h,) = autograd.grad(g.sum(), x)
        return g.detach(), h

    assert_replays(f, (tensor(3, requires_grad=True),), (tensor(3, seed=1, requires_grad=True),))


def test_anomaly_mode_and_copies_inside():
    def f(x):
        with autograd.detect_anomaly():
            y = (x * 2).exp()
            y.sum().backward()
        return copy.deepcopy(y.detach())

    assert_replays(f, (tensor(3, requires_grad=True),), (tensor(3, seed=1, requires_grad=True),))


# --- memory: views and in-place operations


def test_in_place_through_a_view():
    def f(x):
        y = x * 1
        y[0].mul_(10)
        y[:, 1] = 7.0
        y.mT.add_(1)
        y.sum().backward()
        return y

    assert_replays(f, (tensor(2, 3, requires_grad=True),), (tensor(2, 3, seed=1, requires_grad=True),))


def test_write_seen_through_an_older_view():
    def f(x):
        y = x * 1
        row = y[1]
        y.mul_(3)
        return row * 1, row

    assert_replays(f, (tensor(2, 3),), (tensor(2, 3, seed=1),))


def test_input_changed_in_place():
    def f(x):
        x.mul_(2)
        x[0] = 5.0
        return x

    program = assert_replays(f, (tensor(3),), (tensor(3, seed=1),))
    x = tensor(3, seed=2)
    assert program(x) is x
    assert program.mutated == ("x",)


def test_no_grad_write_to_a_view_of_a_parameter():
    def f(x):
        with torch.no_grad():
            p[1].add_(x)

    p = tensor(2, 3, requires_grad=True)
    expected = p.array.copy()
    program = capture(f, tensor(3, seed=1))
    program(tensor(3, seed=2))
    expected[1] += tensor(3, seed=1).array
    expected[1] += tensor(3, seed=2).array
    assert np.array_equal(p.array, expected)


def test_buffer_made_inside_starts_anew():
    def f(x):
        total = torch.zeros(3)
        for row in x:
            total += row
        total[0] = 0.0
        return total

    assert_replays(f, (tensor(4, 3),), (tensor(4, 3, seed=1),), (tensor(4, 3, seed=2),))


def test_constant_result_is_a_copy():
    program = capture(lambda x: (torch.zeros(2), x * 1), tensor(1))
    first, _ = program(tensor(1))
    first.add_(1)
    second, _ = program(tensor(1))
    assert second.tolist() == [0.0, 0.0]


def test_outside_tensors_that_share_memory():
    whole = tensor(4)
    part = whole[1:3]

    def f(x):
        part.mul_(x)
        return whole.sum()

    program = capture(f, tensor(2, seed=1))
    expected = whole.array.copy()
    x = tensor(2, seed=2)
    found = program(x)
    expected[1:3] *= x.array
    assert np.array_equal(whole.array, expected)
    assert np.array_equal(found.array, np.add.reduce(expected))


def test_input_with_other_strides():
    def f(x):
        y = x.reshape(-1).exp()
        y.sum().backward()
        return y, x.mT.contiguous()

    flipped = wrap(tensor(4, 3, seed=1).array.T).requires_grad_()
    assert_replays(f, (tensor(3, 4, requires_grad=True),), (flipped,))


def test_contiguous_copies_as_in_eager():
    def f(x):
        y = x.mT.contiguous()
        y.mul_(2)
        return y, y.is_contiguous()

    program = assert_replays(f, (tensor(2, 3),), (tensor(2, 3, seed=1),))
    assert program.outputs[1] is True


def test_replay_is_noted_as_a_write():
    p = tensor(2, requires_grad=True)

    def update(x):
        with torch.no_grad():
            p.mul_(x)

    program = capture(update, tensor(1))
    y = (p * p).sum()
    program(tensor(1))
    with pytest.raises(RuntimeError, match="overwritten"):
        y.backward()


def test_data_assignment_is_an_effect():
    p = tensor(2, requires_grad=True)

    def f(x):
        p.data = p.data + x

    program = capture(f, tensor(2, seed=1))
    expected = p.array + tensor(2, seed=2).array
    program(tensor(2, seed=2))
    assert np.array_equal(p.array, expected)


# --- random programs: views, writes and gradients in any order

PARAMETERS = [tensor(3, 4, seed=50, requires_grad=True), tensor(4, seed=51, requires_grad=True)]


def replaced(t, u):
    t[...] = u


def without_graph(t, u):
    with torch.no_grad():
        return t * u


# Each takes two tensors; it returns a new one or changes the first.
STEPS = [
    lambda t, u: t.sin(), lambda t, u: t * u, lambda t, u: t + u, lambda t, u: t - u, lambda t, u: t @ u,
    lambda t, u: t.sum(0, keepdim=True), lambda t, u: t.max(), lambda t, u: torch.cat([t.mT.ravel(), u.ravel()])[:4],
    lambda t, u: t[0], lambda t, u: t.mT, lambda t, u: t.reshape(-1), lambda t, u: t[..., ::2], lambda t, u: t.clone(),
    lambda t, u: t.detach(), without_graph, lambda t, u: torch.zeros(4).add_(u),
    lambda t, u: (t.mul_(1.5), None)[1], lambda t, u: (t.add_(u), None)[1], replaced,
]  # fmt: skip


def random_program(seed):
    """A function of two tensors made of random steps; a step that eager refuses is left out."""
    draw = np.random.default_rng(seed)
    plan = [(STEPS[draw.integers(len(STEPS))], draw.random(), draw.random()) for _ in range(draw.integers(2, 15))]

    def function(x, y):
        pool = [x * 1, y * 1, *(p * 1 for p in PARAMETERS)]
        for step, first, second in plan:
            try:
                made = step(pool[int(first * len(pool))], pool[int(second * len(pool))])
            except (RuntimeError, IndexError):
                continue
            pool += [made] if made is not None else []
        try:
            sum((t.tanh().sum() for t in pool if t.requires_grad), start=x.sum()).backward()
        except InplaceError:
            return pool
        with torch.no_grad():
            for p in PARAMETERS:
                p -= p.grad * 0.01
        return pool

    return function


def run_from_start(function, values, inputs):
    """The bits of everything a run makes or changes, with the parameters set to given values before."""
    for p, value in zip(PARAMETERS, values):
        p.array[...], p.grad = value, None
    result = function(*inputs)
    return [bits(tree) for tree in (result, PARAMETERS, gradients(PARAMETERS), inputs, gradients(inputs))]


@pytest.mark.parametrize("seed", range(25))
def test_random_programs(seed):
    values = [tensor(*p.shape, seed=50 + i).array for i, p in enumerate(PARAMETERS)]
    function = random_program(seed)
    cases = [
        (tensor(3, 4, seed=case, requires_grad=True), tensor(4, seed=case + 1, requires_grad=True)) for case in (0, 2)
    ]
    programs = []
    run_from_start(lambda *inputs: programs.append(capture(function, *inputs)), values, copies(cases[0]))
    for case in cases:
        expected = run_from_start(function, values, copies(case))
        assert run_from_start(programs[0], values, copies(case)) == expected


# --- references, closures, trees


def test_parameters_are_read_at_replay():
    p = tensor(3)
    program = capture(lambda x: x * p, tensor(3))
    p.array = tensor(3, seed=4).array
    assert np.array_equal(program(tensor(3, seed=5)).array, tensor(3, seed=5).array * p.array)


def test_reference_changed_shape():
    p = tensor(3)
    program = capture(lambda x: x * p, tensor(3))
    p.array = tensor(1).array
    with pytest.raises(CaptureError, match=r"p is \(1,\) float32 now, captured was \(3,\) float32"):
        program(tensor(3))


def test_references_have_names():
    network = Network()
    program = capture(network.loss, *batch(0))
    scale = tensor(1)
    assert [i.name for i in program.inputs] == ["x", "y"]
    assert capture(lambda x: x * scale, tensor(1)).references[0].name == "scale"


def test_trees():
    Pair = namedtuple("Pair", "left right")

    def f(tree, *, extra):
        return {"sum": tree["a"] + tree["b"][0], "pair": Pair(extra[0] * 2, None), "list": [tree["b"][1], 3]}

    tree = {"a": tensor(2), "b": (tensor(2, seed=1), tensor(2, seed=2))}
    program = capture(f, tree, extra=[tensor(2, seed=3)])
    other = {"a": tensor(2, seed=4), "b": (tensor(2, seed=5), tensor(2, seed=6))}
    found = program(other, extra=[tensor(2, seed=7)])
    expected = f(other, extra=[tensor(2, seed=7)])
    assert bits(found) == bits(expected)
    assert isinstance(found["pair"], Pair)
    assert found["list"][0] is other["b"][1]
    assert found["list"][1] == 3


def test_returns_python_values_and_none():
    program = capture(lambda x: (None, "text", x * 1, 1.5), tensor(1))
    assert program(tensor(1))[:2] == (None, "text")
    assert capture(lambda: None)() is None


def test_several_results_and_operations_on_lists():
    def f(x, y):
        values, places = x.max(1)
        joined = torch.cat([values, y, values])
        joined.sum().backward()
        return places, joined

    cases = [(tensor(3, 4, seed=s, requires_grad=True), tensor(2, seed=s + 1, requires_grad=True)) for s in (0, 5)]
    assert_replays(f, *cases)


def test_index_tensors_are_inputs():
    def f(x, index):
        rows = x[index]
        rows.sum().backward()
        return rows, x[:, index]

    index = [wrap(np.array(i)) for i in ([0, 2, 2], [1, 1, 0])]
    x, y = tensor(3, 3, requires_grad=True), tensor(3, 3, seed=1, requires_grad=True)
    assert_replays(f, (x, index[0]), (y, index[1]))


# --- errors


def test_wrong_shape():
    program = capture(lambda x, y: x * y, tensor(3), tensor(3))
    with pytest.raises(CaptureError, match=r"y is \(4,\) float32, captured was \(3,\) float32"):
        program(tensor(3), tensor(4))


def test_wrong_dtype():
    program = capture(lambda x: x * 2, tensor(3))
    with pytest.raises(CaptureError, match=r"x is \(3,\) float64, captured was \(3,\) float32"):
        program(tensor(3, dtype="float64"))


def test_refused_call_changes_nothing():
    p = tensor(3)
    program = capture(lambda x: p.mul_(x), tensor(3))
    before = p.array.copy()
    with pytest.raises(CaptureError):
        program(tensor(2))
    assert np.array_equal(p.array, before)


def test_input_must_require_grad_again():
    program = capture(lambda x: (x * x).sum().backward(), tensor(2, requires_grad=True))
    with pytest.raises(CaptureError, match="x does not require grad"):
        program(tensor(2))


def test_other_structure():
    program = capture(lambda xs: xs[0] * xs[1], [tensor(1), tensor(1)])
    with pytest.raises(CaptureError, match="another structure"):
        program([tensor(1)])


def test_static_arguments_are_guarded():
    program = capture(lambda x, n: x * n, tensor(1), 3)
    assert np.array_equal(program(tensor(1), 3).array, tensor(1).array * 3)
    with pytest.raises(CaptureError, match="n is 4, captured was 3"):
        program(tensor(1), 4)


def test_argument_given_twice():
    x, y = tensor(2), tensor(2, seed=1)
    twice = capture(lambda a, b: a * b, x, x)
    assert np.array_equal(twice(y, y).array, y.array * y.array)
    with pytest.raises(CaptureError, match="same tensor as a"):
        twice(x, y)
    once = capture(lambda a, b: a * b, x, y)
    with pytest.raises(CaptureError, match="given twice"):
        once(x, x)


def test_arrays_are_not_inputs():
    with pytest.raises(TypeError, match="takes tensors"):
        capture(lambda x: x, np.ones(2))


def test_capture_does_not_nest():
    with pytest.raises(CaptureError, match="inside a captured function"):
        capture(lambda x: capture(lambda y: y * 1, x), tensor(1))
    program = capture(lambda x: x * 1, tensor(1))
    with pytest.raises(CaptureError, match="while capturing"):
        capture(lambda x: program(x), tensor(1))


def test_graph_from_before_the_capture():
    x = tensor(2, requires_grad=True)
    y = x.exp()
    with pytest.raises(CaptureError, match="backward reaches ExpBackward0, which was recorded before"):
        capture(lambda z: (y * z).sum().backward(), tensor(2))
    assert x.grad is None
    capture(lambda z: (y.detach() * z * x).sum().backward(), tensor(2))
    with pytest.raises(CaptureError, match="backward reaches ExpBackward0"):
        capture(lambda z: z.sum().backward(), y)


def test_function_that_fails_leaves_no_traces():
    kept = []

    def f(x):
        kept.append(x * p)
        raise KeyError("mine")

    p, x = tensor(2, requires_grad=True), tensor(2)
    with pytest.raises(KeyError, match="mine"):
        capture(f, x)
    assert_clean([p, x, kept])
    kept[0].sum().backward()
    assert np.array_equal(p.grad.array, x.array)


def test_wrong_option():
    with pytest.raises(ValueError, match="on_value_use"):
        capture(lambda x: x, tensor(1), on_value_use="ignore")


# --- control flow


def line_of(function, text):
    lines, start = inspect.getsourcelines(function)
    return start + next(i for i, line in enumerate(lines) if text in line)


def branch(x):
    if x.sum() > 0:
        return x * 2
    return x


def item(x):
    return x * x.sum().item()


def number(x):
    return x * float(x[0])


def numpy(x):
    return x * float(x.numpy()[0])


def listed(x):
    return x * x.tolist()[0]


def formatted(x):
    text = f"{x.sum():.3f}"
    return x, text


@pytest.mark.parametrize(
    ("function", "text", "what"),
    [
        (branch, "if x.sum()", "bool()"), (item, ".item()", "item()"), (number, "float(", "float()"),
        (numpy, ".numpy()", "numpy()"), (listed, ".tolist()", "tolist()"), (formatted, ":.3f", "format()"),
    ],
)  # fmt: skip
def test_value_use_is_found_on_its_line(function, text, what):
    with pytest.raises(CaptureError, match=re.escape(what)) as error:
        capture(function, tensor(3))
    assert f"test_capture.py:{line_of(function, text)}" in str(error.value)
    program = capture(function, tensor(3), on_value_use="allow")
    assert [(use.what, use.place.line) for use in program.value_uses] == [(what, line_of(function, text))]
    assert "valid on one path only" in str(program)
    assert bits(program(tensor(3))) == bits(function(tensor(3)))


@pytest.mark.parametrize(
    "function",
    [lambda x: x[x > 0] * 2, lambda x: torch.masked_select(x, x > 0), torch.nonzero, torch.unique],
    ids=["mask", "masked_select", "nonzero", "unique"],
)
def test_shape_that_depends_on_values_is_a_value_use(function):
    with pytest.raises(CaptureError):
        capture(function, tensor(5))
    program = capture(function, tensor(5), on_value_use="allow")
    assert len(program.value_uses) == 1
    assert bits(program(tensor(5))) == bits(function(tensor(5)))


def test_assignment_by_mask_keeps_to_shapes():
    def f(x):
        y = x * 1
        y[y > 0] = 0.0
        y.sum().backward()
        return y

    assert_replays(f, (tensor(5, requires_grad=True),), (tensor(5, seed=1, requires_grad=True),))


def test_value_use_warns():
    with pytest.warns(UserWarning, match=r"bool\(\) at .*test_capture.py"):
        capture(branch, tensor(3), on_value_use="warn")


class Recurrent:
    """Carries a state from call to call, in a new tensor or in the old one."""

    def __init__(self, in_place):
        self.state, self.in_place = torch.zeros(2), in_place

    def __call__(self, x):
        new = self.state * 0.5 + x
        if self.in_place:
            self.state.copy_(new)
        else:
            self.state = new
        return new * 1


def test_state_that_is_replaced_is_refused_and_state_that_is_written_to_goes_on():
    x = torch.ones(2)
    with pytest.raises(CaptureError, match="read and then replaced") as caught:
        capture(Recurrent(in_place=False), x)
    assert "new = self.state * 0.5 + x" in str(caught.value)
    with pytest.warns(UserWarning, match="read and then replaced"):
        capture(Recurrent(in_place=False), x, on_value_use="warn")
    program = capture(Recurrent(in_place=True), x)  # 1
    assert [program(x).tolist() for _ in range(2)] == [[1.5, 1.5], [1.75, 1.75]]


def test_values_that_cannot_change_may_be_looked_at():
    def f(x):
        n = torch.tensor(3).item()
        return x * n

    assert capture(f, tensor(2)).value_uses == ()


def test_printing_inside_is_no_value_use():
    texts = []
    program = capture(lambda x: texts.append(repr(x * 1)), tensor(1))
    assert program.value_uses == ()
    assert texts[0].startswith("tensor([")


# --- bare arrays: what library code does to `.array`


def bare(x):
    y = x * 1
    array = y.array
    array[0] = array[1] * 2
    array.sort()
    array += np.maximum(array, 0)
    np.copyto(array, -array, where=array > 1)
    np.add.at(array, [0, 0], 1)
    np.add(array, 1, out=array, where=array < 0)
    stacked = np.concatenate([array, array.real[::-1], np.where(array > 0, array, 5)])
    return y, wrap(stacked.reshape(3, -1).T.astype("float64")), wrap(array.take([2, 0]).cumsum())


def test_bare_numpy_is_recorded():
    assert_replays(bare, (tensor(4),), (tensor(4, seed=1),))


def test_lost_trace_is_refused():
    with pytest.raises(CaptureError, match="lost its trace"):
        capture(lambda x: wrap(np.asarray((x * 1).array)) * 2, tensor(2))


@pytest.mark.parametrize("look", [np.unique, lambda a: np.array_equal(a, a), bool, float, lambda a: a.tolist()])
def test_bare_value_use(look):
    with pytest.raises(CaptureError, match="looks at a value"):
        capture(lambda x: look((x * 1).array), tensor(1))


# --- random numbers


def noisy(x):
    noise = torch.rand(3) * 2 + torch.randn_like(x)
    keep = torch.empty(3).bernoulli_(0.5)
    y = x * noise * keep
    y.sum().backward()
    return y, noise, keep


def test_random_numbers_are_drawn_anew():
    program = capture(noisy, tensor(3, requires_grad=True))
    assert program.value_uses == ()
    assert program.op_counts()["random"] == 3
    for seed in (1, 2):
        eager, replayed = tensor(3, seed=seed, requires_grad=True), tensor(3, seed=seed, requires_grad=True)
        torch.manual_seed(seed)
        expected = noisy(eager), torch.rand(1)
        torch.manual_seed(seed)
        found = program(replayed), torch.rand(1)
        assert bits(found) == bits(expected)
        assert bits(gradients([replayed])) == bits(gradients([eager]))


def test_random_numbers_from_a_generator():
    generator = torch.Generator().manual_seed(3)
    program = capture(lambda: torch.rand(4, generator=generator))
    generator.manual_seed(5)
    first = program()
    assert bits(first) == bits(torch.rand(4, generator=torch.Generator().manual_seed(5)))
    assert bits(program()) != bits(first)


def test_random_order_is_a_value_use():
    with pytest.raises(CaptureError, match="random numbers"):
        capture(lambda x: x[torch.randperm(3)], tensor(3))
    with pytest.raises(CaptureError, match="random numbers"):
        capture(lambda: torch.manual_seed(0))


# --- the program as text and as data


def small(x):
    y = x * weight + 1.5
    y.sum().backward()
    return y


weight = tensor(3, seed=8, requires_grad=True)


def test_printed_program():
    weight.grad = None
    text = str(capture(small, tensor(3)))
    weight.grad = None
    first = small.__code__.co_firstlineno
    assert re.sub(r"[ ]{2,}", "  ", text).splitlines() == [
        line.format(a=first + 1, b=first + 2)
        for line in [
            text.splitlines()[0],
            "# inputs",
            "v0 = x  # (3,) float32",
            "# references",
            "v1 = weight  # (3,) float32",
            "# forward",
            "v2 = mul(v0, v1)  # (3,) float32  test_capture.py:{a}",
            "v4 = add(v2, 1.5)  # (3,) float32  test_capture.py:{a}",
            "v5 = sum_all(v4)  # () float32  test_capture.py:{b}",
            "# backward",
            "v6 = zeros_like(v5)  # () float32  test_capture.py:{b}",
            "v7 = add(v6, 1)  # () float32  test_capture.py:{b}",
            "v8 = expand(v7, (3,))  # (3,) float32  test_capture.py:{b}",
            "v9 = mul(v8, v0)  # (3,) float32  test_capture.py:{a}",
            "v10 = copy(v9)  # (3,) float32  test_capture.py:{b}",
            "# results",
            "weight.grad = v10",
            "return v4",
        ]
    ]


def test_source_runs():
    network = Network()
    program = capture(network.loss, *batch(0))
    names = {}
    exec(program.source(), names)
    x, y = batch(3)
    arrays = [x.array, y.array, *(r.owner.array for r in program.references), *(c.array for c in program.constants)]
    (found,) = names["program"](program.kernels, program.table, *arrays)
    assert found.tobytes() == program(x, y).array.tobytes() == network.loss(x, y).array.tobytes()


def test_instructions_as_data():
    program = capture(lambda x: (x * 2).sum(1), tensor(2, 3))
    assert len(program) == len(list(program)) == 2
    assert program.op_counts() == {"mul": 1, "sum": 1}
    last = program.instructions[-1]
    assert last.op == last.primitive.name == "sum"
    assert last.inputs == (program.instructions[0].outputs[0].number,)
    assert last.outputs[0].shape == (2,)
    assert last.outputs[0].dtype == np.float32
    assert last.place.source.startswith("program = capture(")
    assert "sum(" in str(last)


def test_verify_finds_a_missing_value():
    from dataclasses import replace

    program = capture(lambda x: (x * 2).sin(), tensor(2))
    with pytest.raises(CaptureError, match="before it is made"):
        replace(program, instructions=program.instructions[1:]).verify()


def test_verify_changes_nothing():
    network = Network()
    program = capture(network.step, *batch(0))
    before = bits(network.weights)
    program.verify()
    assert bits(network.weights) == before


# --- afterwards


def test_no_traced_array_remains():
    network = Network()
    losses = []

    def f(x, y):
        loss = network.loss(x, y)
        losses.append(loss)
        loss.backward(retain_graph=True)
        return loss

    capture(f, *batch(0))
    for thing in gc.get_objects():
        kind = type(thing)  # not isinstance: it asks for __class__, and some of torch's objects warn when asked
        if issubclass(kind, Tensor):
            assert not isinstance(thing.array, Traced)
        elif issubclass(kind, Node):
            assert not any(isinstance(leaf, Traced) for _, leaf in leaves(thing.saved))
    before = bits(gradients(network.weights))
    for p in network.weights:
        p.grad = None
    losses[0].backward()  # the graph that was kept works outside
    assert bits(gradients(network.weights)) == before


def test_other_threads_are_not_recorded():
    shared = tensor(3)

    def f(x):
        results = []
        thread = threading.Thread(target=lambda: results.append((shared * 2).sum()))
        thread.start()
        thread.join()
        assert type(results[0].array) is np.ndarray
        return x * 1

    assert capture(f, tensor(3)).op_counts() == {"mul": 1}


def test_capture_makes_no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        capture(small, tensor(3)).verify()
    weight.grad = None


def test_a_write_after_a_random_fill_is_recorded():
    def f(x):
        return x * torch.zeros(3).bernoulli_(1.0).mul_(2.0)

    program = capture(f, tensor(3))
    x = tensor(3, seed=1)
    assert bits(program(x)) == bits(x * 2.0)


@pytest.mark.parametrize("shape", [(40, 30), (1, 30), (30,), (40, 1)], ids=str)
@pytest.mark.parametrize("leading", [(), (3,)], ids=str)
def test_broadcast_gradients_are_summed_alike(shape, leading):
    """Backward and the sum on the tape add up many rows in one order, whichever axes were broadcast."""

    def f(x, y):
        (x * y).sin().sum().backward()
        return x

    x, y = tensor(*leading, 40, 30, requires_grad=True), tensor(*shape, seed=1, requires_grad=True)
    assert_replays(f, (x, y), (tensor(*leading, 40, 30, seed=2, requires_grad=True), y))
