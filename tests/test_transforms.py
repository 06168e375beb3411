"""Transforms of functions: against analytic values, against each other, and against torch.func when present."""

import itertools
from collections import OrderedDict, namedtuple

import numpy as np
import pytest

import pellucid
import pellucid.func
import pellucid.nn.functional as F
from pellucid import func
from pellucid.autograd import forward_ad, functional
from pellucid.core.backward import gradients
from pellucid.core.tensor import Tensor
from pellucid.transforms.batch import batched_seed, unbatch
from pellucid.transforms.tree import flatten, map_tree, spread

RANDOM = np.random.default_rng(7)
X = RANDOM.standard_normal(3)
Y = RANDOM.standard_normal((4, 3))
W = RANDOM.standard_normal((3, 3))


def t(value, **options):
    return pellucid.tensor(np.asarray(value, dtype=np.float64), **options)


def same(got, expected, tolerance=1e-10):
    leaves, structure = flatten(got)
    wanted, other = flatten(expected)
    assert structure == other
    for a, b in zip(leaves, wanted, strict=True):
        a = a.detach().numpy() if isinstance(a, Tensor) else np.asarray(a)
        b = b.detach().numpy() if hasattr(b, "detach") else np.asarray(b)
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


# --- one transform at a time


def test_grad_of_a_scalar_function():
    same(func.grad(pellucid.sin)(t(0.3)), np.cos(0.3))


def test_grad_and_value():
    same(func.grad_and_value(lambda x: (x * x).sum())(t(X)), (2 * X, (X * X).sum()))


def test_grad_argnums():
    f = lambda a, b, c: (a * b * c).sum()
    a, b, c = X, X + 1, X + 2
    same(func.grad(f, 1)(t(a), t(b), t(c)), a * c)
    same(func.grad(f, -1)(t(a), t(b), t(c)), a * b)
    same(func.grad(f, (0, 2))(t(a), t(b), t(c)), (b * c, a * b))
    same(func.grad(f, (1,))(t(a), t(b), t(c)), (a * c,))


def test_grad_has_aux():
    slope, aux = func.grad(lambda x: ((x * x).sum(), {"twice": x + x, "word": "hello"}), has_aux=True)(t(X))
    same(slope, 2 * X)
    same(aux["twice"], 2 * X)
    assert aux["word"] == "hello"
    assert not aux["twice"].requires_grad
    slope, (value, aux) = func.grad_and_value(lambda x: ((x * x).sum(), x), has_aux=True)(t(X))
    same((slope, value, aux), (2 * X, (X * X).sum(), X))


def test_grad_of_an_unused_argument_is_zero():
    same(func.grad(lambda a, b: (a * a).sum(), (0, 1))(t(X), t(X)), (2 * X, 0 * X))
    same(func.grad(lambda a: t(1.0))(t(X)), 0 * X)


def test_grad_of_the_same_tensor_twice():
    x = t(X)
    same(func.grad(lambda a, b: (a * b * b).sum(), (0, 1))(x, x), (X * X, 2 * X * X))


def test_grad_leaves_captured_tensors_alone():
    w = t(X, requires_grad=True)
    x = t(X, requires_grad=True)
    result = func.grad(lambda x: (w * x * x).sum())(x)
    assert w.grad is None
    assert x.grad is None
    assert result.requires_grad
    same(pellucid.autograd.grad(result.sum(), [w, x]), (2 * X, 2 * X))


def test_grad_without_anybody_outside_has_no_graph():
    value = func.grad_and_value(lambda x: (x * x).sum())(t(X))
    assert not any(part.requires_grad for part in value)


def test_grad_under_no_grad():
    w = t(X, requires_grad=True)
    with pellucid.no_grad():
        result = func.grad(lambda x: (w * x * x).sum())(t(X))
    same(result, 2 * X * X)
    assert not result.requires_grad
    respected = func.grad(lambda x: (x * x - _quietly(x)).sum())(t(X))
    same(respected, 2 * X)


def _quietly(x):
    with pellucid.no_grad():
        return x * x * x


def test_vjp():
    value, pull_back = func.vjp(lambda a, b: {"p": a * b, "s": a.sum()}, t(X), t(X + 1))
    same(value, {"p": X * (X + 1), "s": X.sum()})
    cotangent = {"p": t(Y[0]), "s": t(2.0)}
    same(pull_back(cotangent), (Y[0] * (X + 1) + 2, Y[0] * X))
    same(pull_back(cotangent), (Y[0] * (X + 1) + 2, Y[0] * X))


def test_vjp_has_aux():
    value, pull_back, aux = func.vjp(lambda a: (a * a, a + 1), t(X), has_aux=True)
    same((value, aux), (X * X, X + 1))
    same(pull_back(t(X)), (2 * X * X,))


def test_jvp():
    value, slope = func.jvp(lambda a, b: a * b.sin(), (t(X), t(X + 1)), (t(Y[0]), t(Y[1])))
    same(value, X * np.sin(X + 1))
    same(slope, Y[0] * np.sin(X + 1) + X * np.cos(X + 1) * Y[1])


def test_jvp_of_a_constant():
    value, slope = func.jvp(lambda a: t(3.0), (t(X),), (t(X),))
    same((value, slope), (3.0, 0.0))
    with pytest.raises(RuntimeError, match="independent of the inputs"):
        func.jvp(lambda a: t(3.0), (t(X),), (t(X),), strict=True)


def test_jvp_has_aux_and_control_flow():
    def f(x):
        y = x * x if x.sum() > -100 else x
        return y, {"seen": float(y.sum()), "y": y}

    value, slope, aux = func.jvp(f, (t(X),), (t(Y[0]),), has_aux=True)
    same((value, slope), (X * X, 2 * X * Y[0]))
    same(aux["y"], X * X)
    assert aux["seen"] == pytest.approx((X * X).sum())


def test_jvp_detach_stops_the_tangent():
    same(func.jvp(lambda x: x * x.detach(), (t(X),), (t(Y[0]),))[1], X * Y[0])


KINKED = {
    "relu": F.relu, "relu6": F.relu6, "hardtanh": F.hardtanh, "leaky_relu": F.leaky_relu, "hardshrink": F.hardshrink,
    "softshrink": F.softshrink, "threshold": lambda x: F.threshold(x, 0.1, 0.2), "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish, "prelu": lambda x: F.prelu(x, x[:1] * 0.1), "abs": pellucid.abs,
    "clamp": lambda x: x.clamp(-0.5, 1), "max_pool1d": lambda x: F.max_pool1d(x[None], 3)[0],
}  # fmt: skip


@pytest.mark.parametrize("name", KINKED)
@pytest.mark.parametrize("transform", [func.jacfwd, lambda f: func.hessian(lambda x: (f(x) + x * 0).sum())])
def test_a_second_derivative_of_zero_leaves_vmap(name, transform):
    """Zeros that a rule made of saved values alone stayed in the batch, and `.grad` became a Batched array."""
    x = t([0.3, -0.7, 1.4]).requires_grad_()
    (transform(KINKED[name])(x) + x).sum().backward()
    assert isinstance(x.grad.array, np.ndarray)
    assert x.grad.shape == x.shape


def test_a_pull_back_is_that_of_the_function_whatever_becomes_of_its_value():
    x = t(X)
    x.requires_grad_()
    value, pull_back = func.vjp(lambda x: x * x, x)
    value[0] = 5.0
    same(pull_back(t(Y[0]))[0].detach(), 2 * X * Y[0])


def test_jvp_data_stops_the_tangent():
    same(func.jvp(lambda x: x * x.data, (t(X),), (t(Y[0]),))[1], X * Y[0])
    same(func.jacfwd(lambda x: x.data.exp())(t(X)), np.zeros((3, 3)))


def test_jacobians_with_several_outputs_and_inputs():
    f = lambda a, b: {"product": a * b, "mean": (a * a).sum()}
    expected = {"product": (np.diag(X + 1), np.diag(X)), "mean": (2 * X, 0 * X)}
    same(func.jacrev(f, (0, 1))(t(X), t(X + 1)), expected)
    same(func.jacfwd(f, (0, 1))(t(X), t(X + 1)), expected)


@pytest.mark.parametrize("chunk_size", [1, 2, 3, 100])
def test_jacrev_in_chunks(chunk_size):
    f = lambda x: (x.sin() * x.sum()).reshape(3, 1)
    expected = (np.diag(np.cos(X) * X.sum()) + np.sin(X)[:, None]).reshape(3, 1, 3)
    same(func.jacrev(f, chunk_size=chunk_size)(t(X)), expected)


def test_jacobian_aux():
    for transform in (func.jacrev, func.jacfwd):
        matrix, aux = transform(lambda x: (x * x, x + 1), has_aux=True)(t(X))
        same((matrix, aux), (np.diag(2 * X), X + 1))


def test_hessian():
    same(func.hessian(lambda x: x.sin().sum() + x.sum() * x.sum())(t(X)), -np.diag(np.sin(X)) + 2)


def test_a_linearized_function_is_differentiable_itself():
    """PyTorch's gradient of it is zero or missing without a word (docs/port.md); here it is that of jvp."""
    x, w, d = (t(v).requires_grad_() for v in ([1.0, 2.0], [0.5, -1.0], [3.0, 0.25]))

    def f(x):
        return (x**3 * w).sin()

    def by_jvp(x, w, d):
        return func.jvp(lambda x: (x**3 * w).sin(), (x,), (d,))[1].sum()

    value, derivative = func.linearize(f, x)
    wanted = pellucid.autograd.grad(by_jvp(x, w, d), (x, w, d))
    for _ in range(2):
        slopes = pellucid.autograd.grad(derivative(d).sum(), (x, w, d), retain_graph=True)
        for found, expected in zip(slopes, wanted, strict=True):
            assert pellucid.allclose(found, expected, rtol=1e-13)
    (slope,) = pellucid.autograd.grad(value.sum(), x)
    assert pellucid.allclose(slope, pellucid.autograd.grad(f(x).sum(), x)[0], rtol=1e-13)
    x, w, d = x.detach(), w.detach(), d.detach()
    for outer in (func.grad, func.jacfwd):
        assert pellucid.allclose(outer(lambda x: func.linearize(f, x)[1](d).sum())(x), wanted[0], rtol=1e-13)
        assert pellucid.allclose(outer(lambda d: func.linearize(f, x)[1](d).sum())(d), wanted[2], rtol=1e-13)


def test_linearize():
    runs = []

    def f(x):
        runs.append(1)
        return {"out": x.sin() * x.sum()}

    value, derivative = func.linearize(f, t(X))
    same(value, {"out": np.sin(X) * X.sum()})
    for tangent in Y:
        expected = np.cos(X) * tangent * X.sum() + np.sin(X) * tangent.sum()
        same(derivative(t(tangent)), {"out": expected})
    assert len(runs) == 1
    assert not value["out"].requires_grad
    assert not derivative(t(X))["out"].requires_grad
    same(func.vmap(derivative)(t(Y))["out"][1], derivative(t(Y[1]))["out"])
    with pytest.raises(RuntimeError, match="shape"):
        derivative(t(Y))


# --- vmap


@pytest.mark.parametrize(("in_dim", "out_dim"), list(itertools.product([0, 1, 2, -1, -3], [0, 1, -1, -2])))
def test_vmap_dimensions(in_dim, out_dim):
    x = RANDOM.standard_normal((2, 3, 4))
    got = func.vmap(lambda row: row.sin(), in_dims=in_dim, out_dims=out_dim)(t(x))
    same(got, np.moveaxis(np.moveaxis(np.sin(x), in_dim, 0), 0, out_dim))


def test_vmap_shared_input():
    same(func.vmap(lambda a, b: a @ b, in_dims=(0, None))(t(Y), t(W)), Y @ W)
    same(func.vmap(lambda a, b: a @ b, in_dims=(None, 1), out_dims=1)(t(W), t(Y.T)), W @ Y.T)


@pytest.mark.parametrize("shape", [(64, 31), (64, 5, 31)])
def test_vmap_of_layers_with_shared_weights_is_the_layer_of_the_batch_to_the_bit(shape):
    pellucid.manual_seed(0)
    weight, bias, x = pellucid.randn(33, 31), pellucid.randn(33), pellucid.randn(shape)
    linear = pellucid.nn.functional.linear
    cases = [
        (lambda a, w, b: linear(a, w, b), linear(x, weight, bias)), (lambda a, w, b: linear(a, w), linear(x, weight)),
        (lambda a, w, b: a @ w.T, x @ weight.T), (lambda a, w, b: (w @ a.mT).mT if a.ndim > 1 else w @ a, x @ weight.T),
    ]  # fmt: skip
    for function, expected in cases[: 4 if len(shape) == 2 else 3]:
        found = pellucid.vmap(function, in_dims=(0, None, None))(x, weight, bias)
        assert pellucid.equal(found, expected)


def test_vmap_pytrees():
    Pair = namedtuple("Pair", "first second")
    inputs = {"pair": Pair(t(Y), t(Y.T)), "shared": t(2.0), "list": [t(Y)]}
    dims = {"pair": Pair(0, 1), "shared": None, "list": [0]}
    got = func.vmap(lambda d: Pair(d["pair"].first * d["shared"], [d["pair"].second + d["list"][0]]), in_dims=(dims,))(
        inputs
    )
    assert type(got) is Pair
    same(got, Pair(2 * Y, [2 * Y]))


def test_vmap_out_dims_pytree_and_unbatched_output():
    got = func.vmap(lambda x: (x, {"a": x + 1, "b": t(5.0)}), out_dims=(1, 0))(t(Y))
    same(got, (Y.T, {"a": Y + 1, "b": np.full(4, 5.0)}))
    first, second = func.vmap(lambda x: (x, "text"), out_dims=(0, None))(t(Y))
    same(first, Y)
    assert second == "text"


@pytest.mark.parametrize("chunk_size", [1, 3, 4, 10])
def test_vmap_in_chunks(chunk_size):
    same(func.vmap(lambda a: (a.sum(), a * 2), out_dims=(0, 1), chunk_size=chunk_size)(t(Y)), (Y.sum(1), 2 * Y.T))


def test_vmap_of_vmap():
    same(func.vmap(func.vmap(lambda a: a * 3))(t(Y)), 3 * Y)
    outer = func.vmap(lambda a: func.vmap(lambda b: a * b)(t(X)))(t(Y[:, 0]))
    same(outer, np.outer(Y[:, 0], X))


def test_vmap_broadcasts_slices_not_stacks():
    same(func.vmap(lambda a, b: a + b)(t(Y), t(Y[:, 0])), Y + Y[:, :1])
    same(func.vmap(lambda a: a.reshape(3, 1) * a)(t(Y)), Y[:, :, None] * Y[:, None, :])


def test_vmap_of_comparisons_and_where():
    got = func.vmap(lambda a: pellucid.where(a > 0, a, -a))(t(Y))
    same(got, np.abs(Y))


def test_vmap_of_an_empty_batch():
    same(func.vmap(lambda a: a.sin())(t(np.zeros((0, 3)))), np.zeros((0, 3)))


def test_vmap_keeps_float32():
    x = pellucid.ones(2, 3)
    y = func.vmap(lambda a: a * 2.0 + 1)(x)
    assert y.dtype == pellucid.float32
    assert func.vmap(func.grad(lambda a: (a * 0.5).sum()))(x).dtype == pellucid.float32
    assert func.jvp(lambda a: a * 2.0 + 1, (x,), (x,))[1].dtype == pellucid.float32


def test_vmap_stays_in_the_graph():
    x = t(Y, requires_grad=True)
    w = t(X, requires_grad=True)
    func.vmap(lambda a: (a * a * w).sum())(x).sum().backward()
    same(x.grad, 2 * Y * X)
    same(w.grad, (Y * Y).sum(0))


def test_vmap_looking_at_values_is_an_error():
    with pytest.raises(RuntimeError, match="needs the values of a Batched array"):
        func.vmap(lambda a: a if a.sum() > 0 else -a)(t(Y))


@pytest.mark.parametrize("pick", [lambda a: a[a > 1], lambda a: a.nonzero(), lambda a: a.masked_select(a > 1)])
def test_vmap_of_what_picks_a_number_of_elements_works_as_long_as_the_number_is_the_same(pick):
    assert len(func.vmap(pick)(t([[0.0, 2.0], [3.0, 0.0]]))) == 2
    with pytest.raises(RuntimeError, match=r"(?s)vmap: .* of shape \(1.* and of shape \(2.* dynamic shape") as caught:
        func.vmap(pick)(t([[0.0, 2.0], [3.0, 4.0]]))
    assert f"where: {__file__}" in str(caught.value)


def test_vmap_refuses_to_draw_unless_told_how():
    same(func.vmap(lambda a: a + 1)(t(Y)), Y + 1)
    with pytest.raises(RuntimeError, match="called random operation while in randomness error mode"):
        func.vmap(lambda a: a + pellucid.randn(3))(t(Y))
    pellucid.rand(1)  # the refusal ends with the call


@pytest.mark.parametrize("randomness", ["same", "different"])
def test_vmap_randomness(randomness):
    same(func.vmap(lambda a: a + 1, randomness=randomness)(t(Y)), Y + 1)
    noise = func.vmap(lambda a: a * 0 + pellucid.randn(3, dtype=pellucid.float64), randomness=randomness)(t(Y))
    assert len({tuple(row) for row in noise.tolist()}) == (4 if randomness == "different" else 1)


def test_batched_seed():
    x = t(X, requires_grad=True)
    y = x.sin() * x
    seeds, size, level = batched_seed([t(np.eye(3))])
    (g,) = gradients([y], seeds, [x], True, False)
    same(unbatch(g, size, level), np.diag(np.cos(X) * X + np.sin(X)))


# --- transforms of transforms


def cube(x):
    return (x * x * x).sum()


def mixed(x):
    return (x.sin() * x.sum()).exp().sum()


SECOND = {
    "jacfwd(jacrev)": lambda f: func.jacfwd(func.jacrev(f)),
    "jacrev(jacfwd)": lambda f: func.jacrev(func.jacfwd(f)),
    "jacrev(jacrev)": lambda f: func.jacrev(func.jacrev(f)),
    "jacfwd(jacfwd)": lambda f: func.jacfwd(func.jacfwd(f)),
    "jacrev(grad)": lambda f: func.jacrev(func.grad(f)),
    "jacfwd(grad)": lambda f: func.jacfwd(func.grad(f)),
    "vmap(jvp(grad))": lambda f: lambda x: func.vmap(lambda v: func.jvp(func.grad(f), (x,), (v,))[1])(t(np.eye(3))),
    "vmap(grad(jvp))": lambda f: (
        lambda x: func.vmap(lambda v: func.grad(lambda x: func.jvp(f, (x,), (v,))[1])(x))(t(np.eye(3)))
    ),
    "vmap(grad(grad . v))": lambda f: (
        lambda x: func.vmap(lambda v: func.grad(lambda x: (func.grad(f)(x) * v).sum())(x))(t(np.eye(3)))
    ),
    "grad of vmap of jvp": lambda f: (
        lambda x: func.jacrev(lambda x: func.vmap(lambda v: func.jvp(f, (x,), (v,))[1])(t(np.eye(3))))(x)
    ),
    "autograd.functional": lambda f: lambda x: functional.hessian(f, x),
    "autograd.functional forward": lambda f: (
        lambda x: functional.hessian(f, x, vectorize=True, outer_jacobian_strategy="forward-mode")
    ),
    "linearize(grad)": lambda f: lambda x: func.vmap(func.linearize(func.grad(f), x)[1])(t(np.eye(3))),
}


@pytest.mark.parametrize("name", SECOND)
def test_second_derivatives_agree(name):
    same(SECOND[name](cube)(t(X)), np.diag(6 * X))
    same(SECOND[name](mixed)(t(X)), func.hessian(mixed)(t(X)))


@pytest.mark.parametrize("modes", list(itertools.product([func.jacrev, func.jacfwd], repeat=3)))
def test_third_derivatives_in_every_order_of_modes(modes):
    f = cube
    for transform in modes:
        f = transform(f)
    expected = np.zeros((3, 3, 3))
    expected[range(3), range(3), range(3)] = 6
    same(f(t(X)), expected)


def test_vmap_of_hessian():
    got = func.vmap(func.hessian(cube))(t(Y))
    same(got, np.stack([np.diag(6 * row) for row in Y]))


def test_grad_of_vmap_of_grad():
    f = lambda w: func.vmap(lambda x: func.grad(lambda x: (w * x * x * x).sum())(x).sum())(t(Y)).sum()
    same(func.grad(f)(t(X)), (3 * Y * Y).sum(0))


def test_backward_through_transforms():
    x = t(X, requires_grad=True)
    func.jvp(lambda x: (x * x * x).sum(), (x,), (t(Y[0]),))[1].backward()
    same(x.grad, 6 * X * Y[0])
    x = t(X, requires_grad=True)
    func.hessian(cube)(x).sum().backward()
    same(x.grad, np.full(3, 6.0))


def test_gradient_of_a_tangent():
    v = t(Y[0], requires_grad=True)
    value, slope = func.jvp(lambda x: x.sin(), (t(X),), (v,))
    (slope * value).sum().backward()
    same(v.grad, np.cos(X) * np.sin(X))


# --- perturbation confusion


def forward_slope(f):
    return lambda x: func.jvp(f, (x,), (t(1.0),))[1]


@pytest.mark.parametrize(("outer", "inner"), list(itertools.product([func.grad, forward_slope], repeat=2)))
def test_perturbation_confusion_in_every_pair_of_modes(outer, inner):
    one = t(1.0)
    same(outer(lambda x: x * inner(lambda y: x + y)(one))(one), 1.0)
    same(outer(lambda x: x * inner(lambda y: x * y)(one))(t(3.0)), 6.0)
    same(outer(lambda x: inner(lambda y: y * y * x)(x))(t(3.0)), 12.0)


def test_captured_tensor_is_a_constant_of_the_inner_level():
    same(func.jvp(lambda x: func.jvp(lambda y: x * x, (x,), (x,))[1] + x, (t(X),), (t(X),))[1], X)


# --- pytrees


def test_pytree_arguments_of_grad():
    parameters = OrderedDict(weight=t(W), rest=(t(X), [t(2.0)]))
    f = lambda p, x: ((x @ p["weight"] + p["rest"][0]) * p["rest"][1][0]).sum()
    got = func.grad(f)(parameters, t(Y))
    assert type(got) is OrderedDict
    assert list(got) == ["weight", "rest"]
    same(got["weight"], 2 * Y.sum(0)[:, None] * np.ones((1, 3)))
    same(got["rest"], (np.full(3, 8.0), [(Y @ W + X).sum()]))


def test_flatten_and_unflatten():
    Point = namedtuple("Point", "x y")
    tree = {"b": [1, (2, None)], "a": Point(3, {}), "c": ()}
    leaves, structure = flatten(tree)
    assert leaves == [3, 1, 2, None]
    assert structure.unflatten(leaves) == tree
    assert type(structure.unflatten(leaves)["a"]) is Point
    assert map_tree(lambda n: n and -n, tree) == {"b": [-1, (-2, None)], "a": Point(-3, {}), "c": ()}
    assert spread({"b": 0, "a": 1, "c": None}, structure) == [1, 0, 0, 0]
    assert spread([0], structure) is None


# --- in-place operations inside transforms


def in_place(x):
    y = x.clone()
    y[0] = 1
    y.add_(1)
    y[1:].mul_(x[1:])
    return y


def expected_in_place(x):
    return np.concatenate([[2.0], (x[1:] + 1) * x[1:]])


def test_a_view_sees_what_its_base_became_inside_vmap():
    def through_the_base(x):
        y = x.clone()
        view = y[1:]
        y.mul_(3)
        return view * 2

    expected = Y[:, 1:] * 6
    same(func.vmap(through_the_base)(t(Y)), expected)
    with pellucid.no_grad():
        same(func.vmap(through_the_base)(t(Y)), expected)
    same(func.jvp(through_the_base, (t(X),), (t(Y[0]),))[1], Y[0, 1:] * 6)


def test_numpy_is_told_that_a_batched_array_has_no_values():
    def look(x):
        assert repr(x).startswith("Batched(batch_size=4")
        for leave in (np.asarray, np.linalg.norm):
            with pytest.raises(TypeError, match="Batched array"):
                leave(x.array)
        return x

    same(func.vmap(look)(t(Y)), Y)


def test_backward_inside_vmap_fills_the_leaves_made_there():
    def slope(x):
        leaf = (x * 1).detach().requires_grad_()
        (leaf**3).sum().backward()
        (leaf * 2).sum().backward()
        return leaf.grad

    same(func.vmap(slope)(t(Y)), 3 * Y**2 + 2)


def test_in_place_inside_vmap():
    same(func.vmap(in_place)(t(Y)), np.stack([expected_in_place(row) for row in Y]))


def test_in_place_inside_jvp():
    value, slope = func.jvp(in_place, (t(X),), (t(Y[0]),))
    same(value, expected_in_place(X))
    same(slope, np.concatenate([[0.0], (2 * X[1:] + 1) * Y[0][1:]]))


def test_in_place_inside_grad_and_compositions():
    slope = np.concatenate([[0.0], 2 * X[1:] + 1])
    f = lambda x: in_place(x).sum()
    same(func.grad(f)(t(X)), slope)
    same(func.jacrev(in_place)(t(X)), np.diag(slope))
    same(func.jacfwd(in_place)(t(X)), np.diag(slope))
    second = np.diag([0.0, 2.0, 2.0])
    same(func.hessian(f)(t(X)), second)
    same(func.jacrev(func.jacfwd(f))(t(X)), second)
    same(func.vmap(func.grad(f))(t(Y))[:, 1:], 2 * Y[:, 1:] + 1)


def test_in_place_into_a_new_tensor():
    def f(x):
        y = pellucid.zeros(3, dtype=pellucid.float64)
        y[1] = x[1] * x[1]
        return y

    same(func.jvp(f, (t(X),), (t(Y[0]),))[1], np.array([0, 2 * X[1] * Y[0][1], 0]))
    same(func.jacrev(f)(t(X)), np.diag([0, 2 * X[1], 0]))
    with pytest.raises(RuntimeError, match="cannot be written into an ordinary tensor"):
        func.vmap(f)(t(Y))


def test_writing_a_batched_value_into_a_captured_tensor_is_an_error():
    outside = t(X)
    with pytest.raises(RuntimeError, match="add_: a Batched value cannot be written"):
        func.vmap(lambda x: outside.add_(x))(t(Y))
    same(outside, X)
    with pytest.raises(RuntimeError, match="inner vmap"):
        func.vmap(lambda a: func.vmap(lambda b: a.mul_(b))(t(X)))(t(Y[:, 0]))


def test_unbatched_value_written_into_a_batched_tensor():
    w = t(X, requires_grad=True)

    def f(x):
        y = x.clone()
        y.copy_(w)
        return y.mul_(x)

    out = func.vmap(f)(t(Y))
    same(out, X * Y)
    out.sum().backward()
    same(w.grad, Y.sum(0))


# --- errors


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: func.grad(lambda x: x * x)(t(X)), RuntimeError, "scalar Tensor, got tensor with 1 dims"),
        (lambda: func.grad(lambda x: 1.0)(t(X)), RuntimeError, "Expected f\\(\\*args\\) to return a Tensor"),
        (lambda: func.grad(cube, 1)(t(X)), RuntimeError, "Got argnum=1, but only 1 positional inputs"),
        (lambda: func.grad(cube, ())(t(X)), RuntimeError, "argnums must be non-empty"),
        (lambda: func.grad(cube, (0, -1))(t(X)), RuntimeError, "must be unique"),
        (lambda: func.grad(cube, "x")(t(X)), RuntimeError, "argnums must be int or Tuple"),
        (lambda: func.grad(cube, has_aux=True)(t(X)), RuntimeError, "should be a tuple: \\(output, aux\\)"),
        (lambda: func.grad(cube)(1.0), ValueError, "must be Tensor, got"),
        (lambda: func.grad(cube)(pellucid.tensor([1])), RuntimeError, "floating point"),
        (lambda: func.vjp(lambda x: x, t(X))[1]((t(X),)), RuntimeError, "pytree structure of cotangents"),
        (lambda: func.vjp(lambda x: 3, t(X)), RuntimeError, "only tensors"),
        (lambda: func.vjp(lambda x: x > 0, t(X)), RuntimeError, "floating-point or complex"),
        (lambda: func.vjp(lambda x: x, t(X))[1](t(Y)), RuntimeError, "Mismatch in shape"),
        (lambda: func.jvp(cube, t(X), t(X)), RuntimeError, "Expected primals to be a tuple"),
        (lambda: func.jvp(cube, (t(X),), (t(X), t(X))), RuntimeError, "same python structure"),
        (lambda: func.jvp(cube, (t(X),), (t(Y),)), RuntimeError, "shape"),
        (lambda: func.jvp(cube, (1.0,), (1.0,)), RuntimeError, "only contain Tensors"),
        (lambda: func.jvp(lambda x: 1, (t(X),), (t(X),)), RuntimeError, "return only tensors"),
        (lambda: func.vmap(cube)(), ValueError, "got no inputs"),
        (lambda: func.vmap(cube, in_dims=None)(t(X)), ValueError, "expected `in_dims` to be int"),
        (lambda: func.vmap(cube, in_dims=(None,))(t(X)), ValueError, "at least one Tensor to vmap over"),
        (lambda: func.vmap(cube, in_dims=(0, 0))(t(X)), ValueError, "not compatible with the structure of `inputs`"),
        (lambda: func.vmap(cube, in_dims=3)(t(X)), ValueError, "expected in_dim to satisfy"),
        (lambda: func.vmap(cube, in_dims=("a",))(t(X)), ValueError, "integer dimension or None"),
        (lambda: func.vmap(cube)(1.0), ValueError, "cannot vmap over non-Tensor"),
        (lambda: func.vmap(lambda a, b: a)(t(X), t(Y)), ValueError, "same size in the mapped dimension"),
        (lambda: func.vmap(lambda a: 1)(t(X)), ValueError, "must only return Tensors"),
        (lambda: func.vmap(lambda a: a, out_dims=None)(t(X)), ValueError, "when out_dim is None"),
        (lambda: func.vmap(lambda a: a, out_dims=(0, 0))(t(X)), ValueError, "structure of `outputs`"),
        (lambda: func.vmap(lambda a: a, out_dims=2)(t(X)), IndexError, "Dimension out of range"),
        (lambda: func.vmap(cube, randomness="no"), RuntimeError, "Only allowed values for randomness"),
        (lambda: func.vmap(cube, chunk_size=0), ValueError, "chunk_size"),
        (lambda: func.jacrev(cube, chunk_size=0), ValueError, "greater than 0"),
    ],
)
def test_errors(call, error, match):
    with pytest.raises(error, match=match):
        call()


def test_an_error_inside_leaves_the_mode_as_it_was():
    with pytest.raises(ZeroDivisionError):
        func.grad(lambda x: 1 / 0)(t(X))
    with pellucid.no_grad(), pytest.raises(ZeroDivisionError):
        func.vmap(func.grad(lambda x: 1 / 0))(t(X))
    assert pellucid.is_grad_enabled()


# --- networks


def network(p, x):
    return ((x @ p["w1"] + p["b1"]).tanh() @ p["w2"]).sum()


def parameters():
    draw = np.random.default_rng(3)
    return {"w1": draw.standard_normal((3, 4)), "b1": draw.standard_normal(4), "w2": draw.standard_normal((4, 2))}


def test_per_sample_gradients_of_a_network():
    p = map_tree(t, parameters())
    got = func.vmap(func.grad(network), in_dims=(None, 0))(p, t(Y))
    for i, row in enumerate(Y):
        leaves = map_tree(lambda v: v.detach().clone().requires_grad_(), p)
        network(leaves, t(row)).backward()
        same({name: g[i] for name, g in got.items()}, map_tree(lambda leaf: leaf.grad, leaves))


def test_hessian_of_a_network_is_symmetric_and_matches_differences():
    p = map_tree(t, parameters())
    got = func.hessian(lambda b: network({**p, "b1": b}, t(Y)))(p["b1"])
    slope = func.grad(lambda b: network({**p, "b1": b}, t(Y)))
    for i in range(4):
        step = np.zeros(4)
        step[i] = 1e-5
        rise = slope(p["b1"] + t(step)) - slope(p["b1"] - t(step))
        same(got[i], rise.numpy() / 2e-5, 1e-6)
    same(got, got.numpy().T)


class Inner:
    def __init__(self, weight):
        self.weight = weight


class Model:
    """Anything with named_parameters and named_buffers will do."""

    def __init__(self):
        self.inner = Inner(t(W))
        self.bias = t(X)
        self.tied = self.bias

    def named_parameters(self, remove_duplicate=True):
        names = [("inner.weight", self.inner.weight), ("bias", self.bias)]
        return names if remove_duplicate else [*names, ("tied", self.tied)]

    def named_buffers(self, remove_duplicate=True):
        return []

    def __call__(self, x, scale=1.0):
        return (x @ self.inner.weight + self.bias + self.tied) * scale


def test_functional_call():
    model = Model()
    before = (model.inner.weight, model.bias, model.tied)
    new = {"inner.weight": t(2 * W), "bias": t(0 * X)}
    same(func.functional_call(model, new, t(Y), {"scale": 2.0}), 4 * Y @ W)
    same(func.functional_call(model, ({"bias": t(0 * X)},), (t(Y),), tie_weights=False), Y @ W + X)
    got = func.grad(lambda p: func.functional_call(model, p, (t(Y),)).sum())(new)
    same(got, {"inner.weight": Y.sum(0)[:, None] * np.ones((1, 3)), "bias": np.full(3, 8.0)})
    assert all(a is b for a, b in zip(before, (model.inner.weight, model.bias, model.tied), strict=True))


def test_functional_call_errors():
    model = Model()
    weight = model.inner.weight
    with pytest.raises(AttributeError, match="nothing"):
        func.functional_call(model, {"inner.weight": t(0 * W), "nothing.weight": t(X)}, t(Y))
    with pytest.raises(RuntimeError, match="Missing key"):
        func.functional_call(model, {"bias": t(X)}, t(Y), strict=True)
    with pytest.raises(ValueError, match="multiple dictionaries"):
        func.functional_call(model, [{"bias": t(X)}, {"bias": t(X)}], t(Y))
    assert model.inner.weight is weight


# --- autograd.functional and forward_ad


def test_functional_products():
    x, v = t(X), t(Y[0])
    same(functional.vjp(lambda x: x.sin(), x, v), (np.sin(X), np.cos(X) * Y[0]))
    same(functional.jvp(lambda x: x.sin(), x, v), (np.sin(X), np.cos(X) * Y[0]))
    same(functional.vhp(cube, x, v), ((X**3).sum(), 6 * X * Y[0]))
    same(functional.hvp(cube, x, v), ((X**3).sum(), 6 * X * Y[0]))
    same(functional.vjp(cube, x), ((X**3).sum(), 3 * X * X))
    two = functional.hvp(lambda a, b: (a * a * b).sum(), (x, v), (v, x))
    same(two[1], (2 * Y[0] * Y[0] + 2 * X * X, 2 * X * Y[0]))


def test_functional_matrices():
    f = lambda a, b: (a * b, a.sum())
    a, b = X, Y[0]
    expected = ((np.diag(b), np.diag(a)), (np.ones(3), np.zeros(3)))
    same(functional.jacobian(f, (t(a), t(b))), expected)
    same(functional.jacobian(f, (t(a), t(b)), vectorize=True, strategy="forward-mode"), expected)
    same(functional.jacobian(lambda x: x * x, t(a)), np.diag(2 * a))
    blocks = functional.hessian(lambda a, b: (a * a * b).sum(), (t(a), t(b)))
    same(blocks, ((np.diag(2 * b), np.diag(2 * a)), (np.diag(2 * a), np.zeros((3, 3)))))


def test_functional_create_graph():
    x = t(X, requires_grad=True)
    for product in (functional.vjp, functional.jvp):
        assert not product(lambda x: x.sin(), x, t(X))[1].requires_grad
        value = product(lambda x: x.sin(), x, t(X), create_graph=True)[1]
        same(pellucid.autograd.grad(value.sum(), x), (-np.sin(X) * X,))
    for product in (functional.vhp, functional.hvp):
        value = product(lambda x: (x * x * x * x).sum(), x, t(X), create_graph=True)[1]
        same(pellucid.autograd.grad(value.sum(), x), (24 * X * X,))
    for matrix in (functional.jacobian, functional.hessian):
        assert not matrix(cube, x).requires_grad
        assert matrix(cube, x, create_graph=True).requires_grad
    same(pellucid.autograd.grad(functional.hessian(cube, x, create_graph=True).sum(), x), (np.full(3, 6.0),))


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: functional.vjp(lambda x: x, t(X)), RuntimeError, "v can only be None"),
        (lambda: functional.vjp(lambda x: x, t(X), t(Y)), RuntimeError, "v has invalid size"),
        (lambda: functional.vjp(lambda x: x, t(X), (t(X), t(X))), RuntimeError, "single Tensor"),
        (lambda: functional.vjp(lambda x: 3, t(X)), TypeError, "outputs of the user-provided function"),
        (lambda: functional.jvp(lambda x: x, 3.0), TypeError, "inputs given to jvp"),
        (lambda: functional.jacobian(lambda x: t(X), t(X), strict=True), RuntimeError, "does not require gradients"),
        (
            lambda: functional.jacobian(lambda a, b: a, (t(X), t(X)), strict=True),
            RuntimeError,
            "independent of input 1",
        ),
        (lambda: functional.hessian(lambda x: x.sum(), t(X), strict=True), RuntimeError, "independent of the input"),
        (lambda: functional.hessian(lambda x: x, t(X)), RuntimeError, "single element"),
        (lambda: functional.hvp(lambda x: (x, x), t(X), t(X)), RuntimeError, "single Tensor"),
        (lambda: functional.jacobian(cube, t(X), strategy="sideways"), AssertionError, "forward-mode"),
        (lambda: functional.jacobian(cube, t(X), strategy="forward-mode"), NotImplementedError, "vectorize=True"),
        (lambda: functional.jacobian(cube, t(X), strict=True, vectorize=True), RuntimeError, "not supported together"),
    ],
)
def test_functional_errors(call, error, match):
    with pytest.raises(error, match=match):
        call()


def test_forward_ad():
    x = t(X, requires_grad=True)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, t(Y[0]))
        y = dual.sin() * 2
        primal, tangent = forward_ad.unpack_dual(y)
        same((primal, tangent), (2 * np.sin(X), 2 * np.cos(X) * Y[0]))
        assert forward_ad.unpack_dual(t(X)).tangent is None
        tangent.sum().backward()
    same(x.grad, -2 * np.sin(X) * Y[0])
    assert forward_ad.unpack_dual(y).tangent is None


def test_forward_ad_with_a_captured_parameter():
    w = t(Y[1], requires_grad=True)
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(forward_ad.make_dual(t(X), t(Y[0])) * w * w).tangent
        tangent.sum().backward()
    same(w.grad, 2 * Y[1] * Y[0])


def test_forward_ad_levels():
    with pytest.raises(RuntimeError, match="no level exists"):
        forward_ad.make_dual(t(X), t(X))
    with pytest.raises(RuntimeError, match="not the last one"):
        forward_ad.exit_dual_level()
    level = forward_ad.enter_dual_level()
    assert level == 0
    forward_ad.exit_dual_level(level=level)
    with forward_ad.dual_level(), pytest.raises(ValueError, match="floating point"):
        forward_ad.make_dual(pellucid.tensor([1]), t(X))


# --- against torch.func


def composed(module):
    """The same functions for either library: name -> (function of a module's tensors)."""
    f = module.func

    def mlp(p, x):
        return ((x @ p["w1"] + p["b1"]).tanh() @ p["w2"]).exp().sum()

    def wave(x):
        return (x.sin() * x.sum()).exp().sum()

    return {
        "grad": lambda p, x: f.grad(mlp)(p, x),
        "grad twice": lambda p, x: f.grad(lambda x: f.grad(wave)(x).sin().sum())(x),
        "grad_and_value": lambda p, x: f.grad_and_value(wave)(x),
        "per-sample": lambda p, x: f.vmap(f.grad(mlp), in_dims=(None, 0))(p, x),
        "per-sample squared": lambda p, x: f.grad(
            lambda p: (f.vmap(f.grad(mlp), in_dims=(None, 0))(p, x)["w1"] ** 2).sum()
        )(p),
        "jacrev": lambda p, x: f.jacrev(lambda x: (x @ p["w1"]).sin())(x),
        "jacfwd": lambda p, x: f.jacfwd(lambda x: (x @ p["w1"]).sin())(x),
        "hessian": lambda p, x: f.hessian(mlp)(p, x),
        "hessian of rows": lambda p, x: f.vmap(f.hessian(wave))(x),
        "jacrev of jacfwd": lambda p, x: f.jacrev(f.jacfwd(wave))(x),
        "jvp of grad": lambda p, x: f.jvp(f.grad(wave), (x,), (x.cos(),)),
        "grad of jvp": lambda p, x: f.grad(lambda x: f.jvp(wave, (x,), (x.cos(),))[1])(x),
        "vmap of jvp": lambda p, x: f.vmap(lambda a, v: f.jvp(wave, (a,), (v,)))(x, x.cos()),
        "vjp": lambda p, x: f.vjp(lambda x: (x.sin(), x.sum(0)), x)[1]((x, x[0])),
        "linearize": lambda p, x: f.linearize(wave, x)[1](x.cos()),
        "vmap over columns": lambda p, x: f.vmap(lambda a, b: a * b.sum(), in_dims=(1, 0), out_dims=1)(x, p["w1"]),
        "vmap of vmap": lambda p, x: f.vmap(lambda a: f.vmap(lambda b: (a * b).sum())(x))(x),
        "max": lambda p, x: f.jacrev(lambda x: x.max(1).values)(x),
        "softmax": lambda p, x: f.hessian(lambda x: x.softmax(0)[0])(x[0]),
        "cumprod": lambda p, x: f.jacfwd(f.jacrev(lambda x: x.cumprod(0)))(x[0]),
        "third": lambda p, x: f.jacfwd(f.jacrev(f.grad(wave)))(x[0]),
    }


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore::UserWarning:torch.*")
@pytest.mark.parametrize("name", composed(pellucid))
def test_against_torch(torch, name):
    ours = composed(pellucid)[name](map_tree(t, parameters()), t(Y))
    theirs = composed(torch)[name](map_tree(torch.tensor, parameters()), torch.tensor(Y))
    same(ours, map_tree(lambda value: value, theirs), 1e-10)


@pytest.mark.parametrize(
    "buffer",
    [
        lambda x: pellucid.zeros_like(x),
        lambda x: pellucid.full_like(x, 2.0).zero_(),
        lambda x: x.new_zeros(3),
        lambda x: x.new_empty(3).zero_(),
    ],
)
def test_what_is_made_like_a_batched_tensor_has_room_for_its_values(buffer):
    def f(x):
        made = buffer(x)
        made[0] = x[2]
        return made

    x = pellucid.arange(6.0).reshape(2, 3)
    assert func.vmap(f)(x).tolist() == [[2.0, 0.0, 0.0], [5.0, 0.0, 0.0]]
    twice = func.vmap(func.vmap(f))(x.reshape(1, 2, 3))
    assert twice.tolist() == [[[2.0, 0.0, 0.0], [5.0, 0.0, 0.0]]]


def test_a_view_follows_its_base_into_forward_mode():
    def f(x, y):
        x = x.clone()
        view = x[0]
        x.copy_(y)
        return view, x

    x, y, t = pellucid.zeros(2, 3), pellucid.arange(6.0).reshape(2, 3), pellucid.ones(2, 3)
    (view, _), (slope, _) = func.jvp(lambda y: f(x, y), (y,), (t,))
    assert view.tolist() == [0.0, 1.0, 2.0] and slope.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("output", [None, ()])
def test_a_function_without_output_has_no_slope(output):
    x = pellucid.ones(2)
    with pytest.raises(RuntimeError, match="non-empty output"):
        func.jvp(lambda x: output, (x,), (x,))
    with pytest.raises(RuntimeError, match="non-empty output"):
        func.jacfwd(lambda x: output)(x)


def test_the_static_vmap_of_a_function_sees_lists_and_must_say_where_the_batch_is():
    seen = []

    def made(rule):
        class Made(pellucid.autograd.Function):
            @staticmethod
            def forward(x, others):
                return x + others[0] + others[1]

            @staticmethod
            def setup_context(ctx, inputs, output):
                pass

            vmap = staticmethod(rule)

        return func.vmap(Made.apply)

    def adding(info, in_dims, x, others):
        seen.append(in_dims)
        return x + others[0] + others[1], 0

    x = pellucid.arange(2.0)
    assert made(adding)(x, [x, 10 * x]).tolist() == [0.0, 12.0]
    assert seen == [(0, [0, 0])]
    for out_dims in [(0,), (0, 0)]:
        with pytest.raises(RuntimeError, match="incompatible"):
            made(lambda info, in_dims, x, others, out_dims=out_dims: (x, out_dims))(x, [x, x])


def test_ensembles_are_of_one_make():
    from pellucid.functorch import combine_state_for_ensemble

    models = [pellucid.nn.Linear(2, 2) for _ in range(2)]
    models[1].eval()
    with pytest.raises(RuntimeError, match="training/eval mode"):
        combine_state_for_ensemble(models)
    with pytest.raises(RuntimeError, match="same class"):
        combine_state_for_ensemble([models[0], pellucid.nn.ReLU()])


def test_unwrapping_for_the_debugger():
    seen = []

    def f(x):
        seen.extend((func.debug_unwrap(x), func.debug_unwrap(x, recurse=False)))
        return x

    x = pellucid.arange(4.0).reshape(2, 2)
    func.vmap(func.vmap(f))(x)
    assert seen[0].tolist() == x.tolist() and seen[1].shape == (2,)
    assert func.debug_unwrap(x) is x


def test_what_stands_beside_a_forward_jacobian_leaves_the_batch():
    def f(x):
        return x * x, {"double": 2 * x, "name": "f"}

    x = pellucid.tensor([1.0, 2.0])
    jacobian, beside = func.jacfwd(f, has_aux=True)(x)
    assert jacobian.tolist() == [[2.0, 0.0], [0.0, 4.0]] and beside["name"] == "f"
    assert beside["double"].tolist() == [2.0, 4.0]
    weight = pellucid.eye(2, requires_grad=True)  # a parameter from outside enters every level inside

    def g(x):
        return (weight @ x,) * 2

    twice = func.jacfwd(func.jacrev(g, has_aux=True), has_aux=True)
    assert twice(x)[1].tolist() == [1.0, 2.0]
    assert func.vmap(lambda x: twice(x)[1])(x[None]).tolist() == [[1.0, 2.0]]


def test_dual_tensors_are_made_once_and_written_to_no_out():
    x = pellucid.ones(2)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, x)
        for tensor, tangent in ((dual, x), (x, dual)):
            with pytest.raises(RuntimeError, match="already has a forward gradient"):
                forward_ad.make_dual(tensor, tangent)
        for args, out in (((dual, 1), pellucid.zeros(2)), ((x, 1), dual)):
            with pytest.raises(NotImplementedError, match="out= function"):
                pellucid.add(*args, out=out)


def test_a_batched_tensor_knows_how_its_examples_lie_in_memory():
    seen = []

    def look(x):
        seen.append((x.stride(), x.is_contiguous()))
        return x

    x = pellucid.zeros(3, 2, 5, 7)
    func.vmap(look)(x)
    func.vmap(look, in_dims=1)(x)
    func.vmap(func.vmap(look), in_dims=3)(x)
    func.vmap(look)(pellucid.zeros(3, 0, 2))
    func.jvp(look, (x.mT,), (x.mT,))
    assert seen == [
        ((35, 7, 1), True), ((70, 7, 1), False), ((35, 7), False), ((2, 1), True), ((70, 35, 1, 7), False)
    ]  # fmt: skip


def test_a_window_onto_the_memory_of_an_example():
    x = pellucid.arange(12.0).reshape(2, 3, 2).mT
    windows = func.vmap(lambda example: example.as_strided((2, 2), (1, 2)))(x)
    assert windows.tolist() == [[[0.0, 2.0], [1.0, 3.0]], [[6.0, 8.0], [7.0, 9.0]]]
    with pytest.raises(RuntimeError, match="inside of vmap"):
        func.vmap(lambda example: example.as_strided((3,), (1,), 1))(pellucid.arange(6.0).reshape(2, 3))


@pytest.mark.parametrize("randomness", ["same", "different"])
def test_draws_with_given_chances_into_a_batched_tensor(randomness):
    chances = pellucid.tensor([0.0, 1.0])
    drawn = func.vmap(lambda x: x.clone().bernoulli_(chances), randomness=randomness)(pellucid.zeros(3, 2))
    assert drawn.tolist() == [[0.0, 1.0]] * 3


def test_strict_jvp_refuses_an_output_that_does_not_move():
    def unmoved(x):
        return x.long().float().requires_grad_().clone()

    x = pellucid.ones(2)
    with pytest.raises(RuntimeError, match="independent"):
        functional.jvp(unmoved, x, x, strict=True)
    assert functional.jvp(unmoved, x, x)[1].tolist() == [0.0, 0.0]


# --- memory and modes inside of a transform: as for one example, and in forward mode as in reverse mode

LOOKS = (
    "x[0]", "x[-1:]", "x[..., ::2]", "x[None]", "x.mT", "x.permute(1, 0)", "x.movedim(0, -1)", "x.diagonal()",
    "x.unbind(0)[1]", "x.split(1, -1)[0]", "x.tensor_split(2, -1)[1]", "x.narrow(-1, 1, 2)", "x.select(-1, 0)",
    "x.unfold(-1, 2, 2)", "x.as_strided((2, 2), x.stride())",
    "x.as_strided((2,), (x.stride(1),))", "x.reshape(-1)", "x.reshape(-1, 1)", "x.flatten()", "x.ravel()",
    "x.contiguous()", "x.unflatten(-1, (1, -1))", "x.squeeze()", "x.view_as(x)", "x.to(x.dtype)", "x.real",
    "x.swapaxes(0, 1)", "x.unsqueeze(-1)", "x.mT.contiguous()", "x.mT.reshape(-1)", "x.detach()", "x.data[1:]",
    "torch.view_as_complex(x.view(3, 2, 2))", "torch.atleast_3d(x)", "torch.einsum('ij->ji', x)", "x.adjoint()",
)  # fmt: skip


def written(look, x):
    part = eval(look, {"torch": pellucid, "x": x})
    part.mul_(2)
    return x * 1


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("look", LOOKS)
def test_a_write_through_a_view_reaches_what_it_reaches_for_one_example(look, axis):
    shape = [3, 4]
    shape.insert(axis, 2)
    values = t(RANDOM.standard_normal(shape))
    many, one_by_one = values * 1, values * 1
    if axis == 2 and ".view(" in look:  # the elements of an example do not lie in order
        with pytest.raises(RuntimeError, match="stride"):
            func.vmap(lambda x: written(look, x), in_dims=axis)(many)
        return
    found = func.vmap(lambda x: written(look, x), in_dims=axis)(many)
    expected = pellucid.stack([written(look, one_by_one.select(axis, k)) for k in range(2)])
    same(found, expected)
    same(many, one_by_one)


@pytest.mark.parametrize("look", [look for look in LOOKS if "unbind" not in look and "split" not in look])
def test_forward_mode_follows_writes_through_views_as_reverse_mode_does(look):
    x = t(RANDOM.standard_normal((3, 4)))
    f = lambda x: written(look, x * 1)
    same(func.jacfwd(f)(x), func.jacrev(f)(x))
    same(func.hessian(lambda x: f(x).pow(3).sum())(x), func.jacrev(func.jacrev(lambda x: f(x).pow(3).sum()))(x))


def by_buffer(x):
    made = pellucid.zeros(3, dtype=pellucid.float64)
    made[0] = x[0] * x[1]
    made[1:] = x[1:] ** 2
    made[:2] += made[1:].clone()
    return made


def by_adding_up(x):
    total = pellucid.zeros((), dtype=pellucid.float64)
    for element in x:
        total += element**3
    return total


@pytest.mark.parametrize("f", [by_buffer, by_adding_up])
def test_a_buffer_made_inside_has_room_for_every_tangent(f):
    x = t(X)
    same(func.jacfwd(f)(x), func.jacrev(f)(x))
    total = lambda x: f(x).pow(2).sum()
    same(func.hessian(total)(x), func.jacrev(func.jacrev(total))(x))


@pytest.mark.parametrize("cut", [
    lambda x: x.detach(), lambda x: (x * 1).detach_(), lambda x: x.data, lambda x: x.detach().clone(),
])  # fmt: skip
def test_what_cuts_history_cuts_tangents(cut):
    x, direction = t(X), t(X[::-1].copy())
    f = lambda x: cut(x) * x
    same(func.jvp(f, (x,), (direction,))[1], x * direction)
    same(func.jacfwd(f)(x), func.jacrev(f)(x))
    same(func.vmap(func.jacfwd(f))(t(Y)), func.vmap(func.jacrev(f))(t(Y)))


def test_a_tensor_that_is_given_data_moves_as_before():
    x, y, direction = t(X), t(X**2), t([1.0, 2.0, 3.0])
    with forward_ad.dual_level():
        moving, other = forward_ad.make_dual(x, direction) * 1, forward_ad.make_dual(y, direction * 7)
        for values in (other, other.data, y, moving.data * 2):
            moving.data = values
            same(forward_ad.unpack_dual(moving).tangent, direction)
        still = t(X)
        still.data = other
        assert forward_ad.unpack_dual(still).tangent is None


def test_data_of_the_same_memory_changes_nothing():
    x = t(X, requires_grad=True)
    y = x * 1
    part = y[:2]
    part.data = part.data
    part.fill_(3.0)
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 1.0]


def under(mode, f):
    def switched(x):
        with mode():
            return f(x)

    return switched


def test_inference_mode_inside_of_forward_mode_stops_tangents():
    x, direction = t(X), t([1.0, 2.0, 3.0])
    f = lambda x: under(pellucid.inference_mode, lambda x: x * 2)(x) * x
    same(func.jvp(f, (x,), (direction,))[1], 2 * x * direction)

    def writing(x):
        x = x * 1
        under(pellucid.inference_mode, lambda x: x.mul_(2))(x)
        return x * x

    same(func.jvp(writing, (x,), (direction,))[1], 4 * x * direction)
    with forward_ad.dual_level():
        made = under(pellucid.inference_mode, lambda x: x * 2)(forward_ad.make_dual(x, direction))
        assert forward_ad.unpack_dual(made).tangent is None


def test_forward_mode_inside_of_inference_mode_works():
    x = t(X)
    expected = func.jacfwd(by_buffer)(x), func.hessian(by_adding_up)(x)
    with pellucid.inference_mode():
        same((func.jacfwd(by_buffer)(x), func.hessian(by_adding_up)(x)), expected)


def test_no_grad_stops_the_tangents_of_the_older_jvp_only():
    x, direction = t(X), t([1.0, 2.0, 3.0])
    f = lambda x: under(pellucid.no_grad, lambda x: x * x)(x) * x
    same(func.jvp(f, (x,), (direction,))[1], 3 * x * x * direction)
    same(functional.jvp(f, x, direction)[1], x * x * direction)
    total = lambda x: f(x).sum()
    same(functional.hvp(total, x, direction)[1], functional.vhp(total, x, direction)[1])
    with pellucid.autograd.graph.saved_tensors_hooks(lambda x: x.clone(), lambda x: x):  # which run unrecorded
        same(functional.hvp(lambda x: x.pow(3).sum(), x, direction)[1], 6 * x * direction)


@pytest.mark.parametrize("part", ["real", "imag"])
def test_a_part_of_a_complex_number_in_forward_mode_walked_back(part):
    f = lambda x: getattr(pellucid.view_as_complex(x), part).pow(2)
    x, direction = t(RANDOM.standard_normal((3, 2)), requires_grad=True), t(RANDOM.standard_normal((3, 2)))
    value, slope = func.jvp(f, (x,), (direction,))
    (value.sum() + slope.sum()).backward()
    chosen = np.array([1.0, 0.0] if part == "real" else [0.0, 1.0])
    same(x.grad, 2 * chosen * (x.detach().numpy() + direction.numpy()))


# --- gradients of zero leave a level as others do

FLAT = {
    "sign": lambda y: y.sign(),
    "floor": lambda y: y.floor(),
    "round": lambda y: y.round(),
    "trunc": lambda y: y.trunc(),
    "fill_": lambda y: y.clone().fill_(2.0),
    "zero_": lambda y: y.clone().zero_(),
    "norm 0": lambda y: y.norm(0),
    "cdist 0": lambda y: pellucid.cdist(y[None], y[None] * 2, p=0.0).sum(),
    "an inner tangent": lambda y: pellucid.func.jvp(lambda t: t.sin(), (y.detach(),), (y,))[0],
}


@pytest.mark.parametrize("name", FLAT)
def test_a_gradient_of_zero_leaves_its_level(name):
    x, c = pellucid.tensor([0.3, -0.7, 1.1], requires_grad=True), pellucid.tensor([0.5, 1.5, -0.4])
    value, slope = pellucid.func.jvp(lambda u: FLAT[name](u * x) * 2 + u * x, (c,), (c,))
    (value + slope).sum().backward()
    assert type(x.grad.array) is np.ndarray
    assert x.grad.tolist() == pytest.approx((2 * c).tolist())


def test_the_primal_of_a_jvp_in_a_jvp_has_a_gradient_where_the_tangent_has_none():
    x = pellucid.tensor([0.3, -0.7, 1.1], dtype=pellucid.float64, requires_grad=True)
    c = pellucid.tensor([0.5, 1.5, -0.4], dtype=pellucid.float64)

    def primal(u):
        return pellucid.func.jvp(lambda t: t.sin() * x, (u,), (x,))[0] * x

    def right(u):
        return u.sin() * x * x

    found, wanted = (
        pellucid.autograd.grad(sum(pellucid.func.jvp(f, (x * x,), (c,))).sum(), x)[0] for f in (primal, right)
    )
    assert type(found.array) is np.ndarray
    assert found.tolist() == pytest.approx(wanted.tolist())
