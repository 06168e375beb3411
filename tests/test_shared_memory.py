"""What a transform hands out shares memory as PyTorch's does, and the graph knows it; what its nodes keep is guarded.

Every program below runs in both libraries: the values that are seen after its writes and all gradients must be equal.
"""

import importlib
import random

import numpy as np
import pytest

import pellucid
from pellucid import func
from pellucid.autograd import forward_ad
from pellucid.errors import InplaceError
from pellucid.func import jvp, vmap

PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__.replace("_", " ")] = function
    return function


def run(function, library):
    """The values of all tensors that a program returns, and what they all together make of the leaves' gradients."""
    x = library.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype=library.float64, requires_grad=True)
    w = library.tensor(0.7, dtype=library.float64, requires_grad=True)
    tensors = function(library, x * 1, w)
    sum((k + 1) * (tensor * tensor).sum() for k, tensor in enumerate(tensors)).backward()
    grads = [None if leaf.grad is None else leaf.grad.tolist() for leaf in (x, w)]
    return [tensor.detach().tolist() for tensor in tensors], grads


def ones(library, *shape):
    return library.ones(*shape, dtype=library.float64)


# --- vmap


@program
def vmap_a_view_is_written(torch, y, w):
    z = torch.func.vmap(lambda row: row[0])(y)
    z.mul_(w)
    return y, z


@program
def vmap_the_base_is_written(torch, y, w):
    z = torch.func.vmap(lambda row: row[1:])(y)
    y.mul_(w)
    return y, z


@program
def vmap_identity_is_the_tensor(torch, y, w):
    z = torch.func.vmap(lambda row: row)(y)
    assert z is y
    z.mul_(w)
    return y, z


@program
def vmap_other_dimensions(torch, y, w):
    z = torch.func.vmap(lambda column: column[1:], in_dims=1, out_dims=-1)(y)
    z.mul_(w)
    return y, z


@program
def vmap_identity_turned(torch, y, w):
    z = torch.func.vmap(lambda row: row, out_dims=1)(y)
    z[0] = w
    return y, z


@program
def vmap_two_views_of_an_input(torch, y, w):
    whole, first = torch.func.vmap(lambda row: (row[...], row[0]))(y)
    whole.mul_(w)
    return y, whole, first


@program
def vmap_two_views_of_a_result(torch, y, w):
    def f(row):
        new = row * 2
        return new, new[0], new[1:]

    whole, first, rest = torch.func.vmap(f)(y)
    first.mul_(w)
    rest.add_(1)
    return y, whole, first, rest


@program
def vmap_one_result_twice(torch, y, w):
    def f(row):
        new = row * 2
        return new, new

    one, two = torch.func.vmap(f)(y)
    one.mul_(w)
    return one, two


@program
def vmap_a_captured_tensor(torch, y, w):
    z = torch.func.vmap(lambda row: y[0])(y)
    y.mul_(w)
    return y, z


@program
def vmap_a_captured_tensor_as_it_is(torch, y, w):
    z = torch.func.vmap(lambda row: y[0], out_dims=None)(y)
    z.mul_(w)
    return y, z


@program
def vmap_in_pieces_copies(torch, y, w):
    one = torch.func.vmap(lambda row: row, chunk_size=1)(y)
    all_at_once = torch.func.vmap(lambda row: row, chunk_size=2)(y)
    one.mul_(w)
    all_at_once.add_(1)
    return y, one, all_at_once


@program
def vmap_writes_to_its_input(torch, y, w):
    def f(row):
        first = row[0]
        row.mul_(w)
        return first, row + y.sum()

    first, z = torch.func.vmap(f)(y)
    first.mul_(3)
    return y, first, z


@program
def vmap_writes_by_detach(torch, y, w):
    def f(row):
        row.detach()[0] = 9.0
        new = row + w
        new.detach().mul_(3)
        return new

    return y, torch.func.vmap(f)(y)


@program
def vmap_copies_a_captured_tensor(torch, y, w):
    captured = y[0] * w
    z = torch.func.vmap(lambda row: torch.zeros_like(row).copy_(captured))(y)
    z.mul_(2)
    return captured, z


@program
def vmap_of_a_tensor_without_gradient(torch, y, w):
    plain = y.detach() * 2
    z = torch.func.vmap(lambda row: row[0])(plain)
    z.mul_(w)
    return plain, z


@program
def vmap_in_vmap(torch, y, w):
    z = torch.func.vmap(torch.func.vmap(lambda number: number.reshape(1)))(y)
    z[1].mul_(w)
    return y, z


@program
def vmap_in_vmap_writes(torch, y, w):
    def inner(number):
        return number.mul_(w)

    z = torch.func.vmap(lambda row: torch.func.vmap(inner)(row)[1:])(y)
    z.add_(1)
    return y, z


@program
def vmap_a_split(torch, y, w):
    a, b = torch.func.vmap(lambda row: row.split([1, 2]))(y)
    return y, a, b * w


# --- jvp


@program
def jvp_a_view_is_written(torch, y, w):
    value, slope = torch.func.jvp(lambda x: x[0], (y,), (ones(torch, 2, 3),))
    value.mul_(w)
    return y, value, slope


@program
def jvp_the_base_is_written(torch, y, w):
    value, slope = torch.func.jvp(lambda x: x.T, (y,), (ones(torch, 2, 3),))
    y.mul_(w)
    return y, value, slope


@program
def jvp_the_tangent_is_written(torch, y, w):
    tangent = y * 2
    value, slope = torch.func.jvp(lambda x: x[:, 1:], (y,), (tangent,))
    slope.mul_(w)
    return y, tangent, value, slope


@program
def jvp_the_given_tangent_is_written(torch, y, w):
    tangent = y * 2
    value, slope = torch.func.jvp(lambda x: x[0], (y,), (tangent,))
    tangent.mul_(w)
    return y, tangent, value, slope


@program
def jvp_identity(torch, y, w):
    tangent = y * 2
    value, slope = torch.func.jvp(lambda x: x, (y,), (tangent,))
    assert slope is tangent
    value.mul_(w)
    slope.add_(1)
    return y, tangent, value, slope


@program
def jvp_tangents_of_sums_are_their_own(torch, y, w):
    tangent = y * 2
    _, (one, two) = torch.func.jvp(lambda x: (x + 1, x + 2), (y,), (tangent,))
    one.mul_(w)
    return tangent, one, two


@program
def jvp_two_views_of_a_result(torch, y, w):
    def f(x):
        new = x * x
        return new, new[0]

    (whole, row), (slopes, slope) = torch.func.jvp(f, (y * 1,), (y * 2,))
    slopes.mul_(w)
    return whole, row, slopes, slope


@program
def jvp_writes_to_its_input(torch, y, w):
    tangent = y * 2
    value, slope = torch.func.jvp(lambda x: x.mul_(w), (y,), (tangent,))
    return y, tangent, value, slope


@program
def jvp_writes_to_a_view_of_its_input(torch, y, w):
    tangent = y * 2

    def f(x):
        row = x[1]
        x[:, 0] = w
        row.mul_(3)
        return row

    value, slope = torch.func.jvp(f, (y,), (tangent,))
    value.add_(1)
    return y, tangent, value, slope


@program
def jvp_auxiliary_output(torch, y, w):
    value, slope, aside = torch.func.jvp(lambda x: (x.sum(), x[0]), (y,), (ones(torch, 2, 3),), has_aux=True)
    aside.mul_(w)
    return y, value, slope, aside


@program
def jvp_a_tangent_that_lies_otherwise_is_copied(torch, y, w):
    parts = torch.func.jvp(lambda x: x, (y,), (ones(torch, 1).expand(2, 3),))
    turned = (y * 2).T.contiguous().T
    others = torch.func.jvp(lambda x: x.reshape(-1), (y,), (turned,))
    part = y * 3
    rows = torch.func.jvp(lambda x: x, (y[0],), (part[1],))
    for slope in (parts[1], others[1], rows[1]):
        slope.mul_(w)
    return y, turned, part, *parts, *others, *rows


@program
def jvp_in_vmap_and_vmap_in_jvp(torch, y, w):
    def inner(row):
        return torch.func.jvp(lambda x: x[0], (row,), (ones(torch, 3),))

    a, _ = torch.func.vmap(inner)(y)
    b, _ = torch.func.jvp(torch.func.vmap(lambda row: row[1:]), (y,), (ones(torch, 2, 3),))
    a.mul_(w)
    b.add_(1)
    return y, a, b


@program
def jvp_in_vmap_writes(torch, y, w):
    def inner(row):
        return torch.func.jvp(lambda x: x.mul_(w)[0], (row,), (row * 2,))

    return y, *torch.func.vmap(inner)(y)


@program
def jvp_of_what_has_no_gradient_along_what_has(torch, y, w):
    plain = y.detach() * 1
    value, slope = torch.func.jvp(lambda x: x.sin(), (plain,), (y,))
    assert not value.requires_grad
    y.mul_(w)
    return y, slope


# --- dual numbers by hand


@program
def dual_parts_are_written(torch, y, w):
    tangent = y * 2
    forward = torch.autograd.forward_ad
    with forward.dual_level():
        value, slope = forward.unpack_dual(forward.make_dual(y, tangent)[0])
    value.mul_(w)
    slope.add_(1)
    return y, tangent, value, slope


@program
def dual_is_written(torch, y, w):
    tangent = y * 2
    forward = torch.autograd.forward_ad
    with forward.dual_level():
        dual = forward.make_dual(y, tangent)
        dual[0].mul_(w)
        dual.add_(1)
        value, slope = forward.unpack_dual(dual)
        assert slope is tangent
    return y, tangent, value, slope


@program
def dual_result_and_its_parts(torch, y, w):
    forward = torch.autograd.forward_ad
    with forward.dual_level():
        result = forward.make_dual(y, y * 2) * 2
        value, slope = forward.unpack_dual(result)
        value[0].mul_(w)
        slope.mul_(3)
        later = forward.unpack_dual(result + 1)
        result.add_(value[1] * 1)
    return y, value, slope, *later


# --- reverse mode


@program
def vjp_a_view_is_written(torch, y, w):
    value, _ = torch.func.vjp(lambda x: x[0], y)
    value.mul_(w)
    return y, value


@program
def vjp_the_base_is_written(torch, y, w):
    value, _ = torch.func.vjp(lambda x: x[0], y)
    y.mul_(w)
    return y, value


@program
def vjp_identity_is_the_tensor(torch, y, w):
    value, _ = torch.func.vjp(lambda x: x, y)
    assert value is y
    value.mul_(w)
    return y, value


@program
def vjp_of_a_tensor_without_gradient(torch, y, w):
    plain = y.detach() * 2
    (row, new, part), _ = torch.func.vjp(lambda x: (x[0], new := x * 2, new[1]), plain)
    row.mul_(w)
    part.mul_(w)
    return plain, row, new, part


@program
def vjp_pulls_a_view_of_the_cotangent_back(torch, y, w):
    _, pull_back = torch.func.vjp(lambda x: x.T, ones(torch, 3, 2))
    (slope,) = pull_back(y)
    slope.mul_(w)
    return y, slope


@program
def grad_auxiliary_output(torch, y, w):
    slope, (row, whole) = torch.func.grad(lambda x: ((x * x).sum(), (x[0], x)), has_aux=True)(y * 1)
    row.mul_(w)
    return slope, row, whole


@program
def grad_and_value_of_one_element(torch, y, w):
    slope, value = torch.func.grad_and_value(lambda x: x[0, 0])(y)
    value.mul_(w)
    return y, slope, value


@program
def linearize_a_view_is_written(torch, y, w):
    value, _ = torch.func.linearize(lambda x: x[0], y)
    value.mul_(w)
    return y, value


@program
def jacobians_auxiliary_output(torch, y, w):
    one = torch.func.jacrev(lambda x: (x.sum(0), x[0]), has_aux=True)(y)[1]
    two = torch.func.jacfwd(lambda x: (x.sum(0), x[1]), has_aux=True)(y)[1]
    one.mul_(w)
    two.add_(1)
    return y, one, two


@program
def grads_of_a_vmap(torch, y, w):
    cotangents = y * 2
    _, pull_back = torch.func.vjp(lambda x: x, ones(torch, 3))
    slopes = torch.func.vmap(pull_back)(cotangents)[0] * 1
    slopes.mul_(w)
    return cotangents, slopes


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore")
def test_shared_memory_as_in_torch(torch, name):
    got, expected = run(PROGRAMS[name], pellucid), run(PROGRAMS[name], torch)
    for mine, theirs in zip(got[0], expected[0], strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)
    for mine, theirs in zip(got[1], expected[1], strict=True):
        assert (mine is None) is (theirs is None)
        if mine is not None:
            np.testing.assert_allclose(mine, theirs, rtol=1e-12)


# --- known without torch


def start():
    x = pellucid.arange(1.0, 7.0).reshape(2, 3).requires_grad_()
    return x, x * 1


def test_a_result_of_vmap_is_a_view_of_its_input():
    x, y = start()
    z = vmap(lambda row: row[0])(y)
    z.mul_(10)
    y.sum().backward()
    assert x.grad.tolist() == [[10, 1, 1], [10, 1, 1]]


def test_a_result_of_jvp_is_a_view_of_its_input():
    x, y = start()
    value, _ = jvp(lambda x: x[0], (y,), (pellucid.ones(2, 3),))
    y.mul_(10)
    value.sum().backward()
    assert x.grad.tolist() == [[10, 10, 10], [0, 0, 0]]


def test_a_view_out_of_a_transform_under_no_grad_is_one_made_under_no_grad():
    _, y = start()
    with pellucid.no_grad():
        z = vmap(lambda row: row[0])(y)
        value, _ = jvp(lambda x: x[0], (y,), (pellucid.ones(2, 3),))
        row, _ = func.vjp(lambda x: x[0], y)
    for view in (z, value, row):
        assert view.requires_grad
        with pytest.raises(RuntimeError, match="A view was created in no_grad mode"):
            view.mul_(10)


def test_different_random_numbers_and_gradients_give_copies():
    """Where PyTorch's results share memory and ours do not: said in the documentation of vmap and of vjp."""
    _, y = start()
    z = vmap(lambda row: row, randomness="different")(y)
    z.mul_(10)
    assert y[0, 0].item() == 1
    cotangent = pellucid.ones(3, 2)
    (slope,) = func.vjp(lambda x: x.T, pellucid.ones(2, 3))[1](cotangent)
    slope.mul_(10)
    assert cotangent[0, 0].item() == 1


# --- what nodes inside of a transform keep

WRITES = {
    "in place": lambda t: t.mul_(2),
    "data": lambda t: t.data.mul_(2),
    "detach": lambda t: t.detach().mul_(2),
    "index": lambda t: t.detach().__setitem__((0, 0), 9.0),
    "mask": lambda t: t.detach().__setitem__(t > 0, 9.0),
    "out": lambda t: pellucid.add(pellucid.ones(2, 3), 1, out=t.detach()),
    "copy": lambda t: t.detach().copy_(pellucid.ones(2, 3)),
    "fill": lambda t: t.data.fill_(3.0),
    "view of data": lambda t: t.data[1:].zero_(),
}
KEPT = {
    "jvp": lambda y, c: jvp(lambda x: x.tanh() * x, (y,), (c,))[1],
    "vmap of jvp": lambda y, c: vmap(lambda a, b: jvp(lambda x: x.tanh() * x, (a,), (b,))[1])(y, c),
    "jvp of vmap": lambda y, c: jvp(vmap(lambda x: x.tanh() * x), (y,), (c,))[1],
    "jvp of jvp": lambda y, c: jvp(lambda a: jvp(lambda x: x.tanh() * x, (a,), (c,))[1], (y,), (c * 1,))[1],
    "jvp of grad": lambda y, c: jvp(func.grad(lambda x: (x.tanh() * x * x).sum()), (y,), (c,))[1],
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("which", [0, 1], ids=["primal", "tangent"])
@pytest.mark.parametrize("kept", KEPT)
def test_what_a_jvp_keeps_is_guarded(kept, which, write):
    _, y = start()
    tangent = y.detach() * 0.5
    z = KEPT[kept](y, tangent)
    with pellucid.no_grad():
        WRITES[write]((y, tangent)[which])
    with pytest.raises(InplaceError, match=r"backward of .* needs .* but that was overwritten by") as caught:
        z.sum().backward()
    assert caught.value.saved_at.filename.endswith("test_shared_memory.py")
    assert caught.value.written_at.filename.endswith("test_shared_memory.py")


def test_dual_numbers_made_by_hand_are_guarded():
    _, y = start()
    tangent = y.detach() * 0.5
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(y, tangent)
        z = forward_ad.unpack_dual(dual.tanh() * dual).tangent  # saved here
    tangent.mul_(2)  # written here
    with pytest.raises(InplaceError) as caught:
        z.sum().backward()
    assert "# saved here" in str(caught.value) and "# written here" in str(caught.value)


def test_a_tangent_that_no_gradient_asks_for_may_be_written():
    """The values of a jvp depend on no tangent, and where the primal needs no gradient nobody asks for the tangent."""
    x, y = start()
    tangent = y.detach() * 0.5
    value, _ = jvp(lambda x: x * x, (y,), (tangent,))
    tangent.mul_(2)
    value.sum().backward()
    assert x.grad.tolist() == (2 * x).tolist()
    x, y = start()
    _, slope = jvp(lambda x: x.sin(), (pellucid.zeros(2, 3),), (y,))
    y.mul_(2)
    slope.sum().backward()
    assert x.grad.tolist() == [[1, 1, 1], [1, 1, 1]]


def test_the_tangent_that_a_jvp_returns_may_be_written():
    x, y = start()
    _, slope = jvp(lambda x: x.exp(), (y * 0,), (y,))
    slope.mul_(3)
    slope.sum().backward()
    assert x.grad.tolist() == [[3, 3, 3], [3, 3, 3]]


# --- random programs

VIEWS = [
    lambda t: t[0], lambda t: t[-1], lambda t: t[1:], lambda t: t[..., ::2], lambda t: t.transpose(0, -1),
    lambda t: t.reshape(-1), lambda t: t.unsqueeze(0), lambda t: t.narrow(0, 0, 1), lambda t: t.view(t.shape),
]  # fmt: skip
RESULTS = [lambda t: t * 2, lambda t: (t * 0.1).exp(), lambda t: t * t, lambda t: t + 1, lambda t: t.clone()]
IN_PLACE = [
    lambda t, w: t.mul_(1.5), lambda t, w: t.add_(0.25), lambda t, w: t.zero_(), lambda t, w: t.mul_(w),
    lambda t, w: t.copy_(t * 0.3), lambda t, w: t.add_(t), lambda t, w: t.__setitem__(0, 0.5),
    lambda t, w: t.__setitem__(..., w),
]  # fmt: skip


def drawn(draw, depth):
    """A small function of one tensor, as a list of steps and the numbers of the tensors it returns."""
    steps, count = [], 1
    for _ in range(draw.randint(0, 3)):
        kind = draw.choices(["view", "result", "write", "transform"], [4, 2, 3, 2 if depth else 0])[0]
        inside = (draw.choice(["vmap", "jvp", "vjp"]), drawn(draw, depth - 1)) if kind == "transform" else None
        steps.append((kind, draw.randrange(count), draw.random(), inside))
        count += kind != "write"
    return steps, [draw.randrange(count) for _ in range(draw.choice([1, 2]))]


def apply(library, steps, returned, x, w):
    tensors = [x]
    for kind, source, number, inside in steps:
        tensor = tensors[source]
        if kind == "write":
            IN_PLACE[int(number * len(IN_PLACE))](tensor, w)
        elif kind == "transform":
            tensors.append(transformed(library, inside, tensor, w)[0] if tensor.ndim else tensor)
        else:
            choices = VIEWS if kind == "view" else RESULTS
            tensors.append(choices[int(number * len(choices))](tensor) if tensor.ndim else tensor)
    return tuple(tensors[k] for k in returned)


def transformed(library, inside, tensor, w):
    kind, (steps, returned) = inside
    f = lambda x: apply(library, steps, returned, x, w)
    if kind == "vmap":
        return list(library.func.vmap(f)(tensor))
    if kind == "vjp":
        return list(library.func.vjp(f, tensor)[0])
    values, slopes = library.func.jvp(f, (tensor,), (ones(library, *tensor.shape),))
    return [*values, *slopes]


def outcome(library, seed):
    draw = random.Random(seed)

    def body(library, y, w):
        pool = [y, y.detach() * 2]
        for _ in range(draw.randint(2, 5)):
            tensor = pool[draw.randrange(len(pool))]
            kind, number = draw.choice(["view", "write", "transform", "transform"]), draw.random()
            if kind == "transform":
                inside = draw.choice(["vmap", "jvp", "vjp"]), drawn(draw, 1)
                pool += transformed(library, inside, tensor, w) if tensor.ndim else []
            elif kind == "write":
                IN_PLACE[int(number * len(IN_PLACE))](tensor, w)
            elif tensor.ndim:
                pool.append(VIEWS[int(number * len(VIEWS))](tensor))
        return pool

    try:
        return run(body, library)
    except (RuntimeError, IndexError, ValueError, NotImplementedError, TypeError) as error:
        return error


def check_programs(torch, seeds):
    compared = 0
    for seed in seeds:
        expected, got = outcome(torch, seed), outcome(pellucid, seed)
        if isinstance(expected, Exception):
            continue
        assert not isinstance(got, Exception) or isinstance(got, InplaceError), (seed, got)
        if isinstance(got, InplaceError):
            continue
        compared += 1
        for mine, theirs in zip(got[0], expected[0], strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-12, err_msg=str(seed))
        for mine, theirs in zip(got[1], expected[1], strict=True):
            nothing = np.zeros(np.shape(mine if theirs is None else theirs))
            mine, theirs = (nothing if grad is None else grad for grad in (mine, theirs))
            np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-12, err_msg=str(seed))
    assert compared > len(seeds) / 3


@pytest.mark.filterwarnings("ignore")
def test_random_programs_as_in_torch(torch):
    importlib.import_module("torch.func")
    check_programs(torch, range(150))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_many_random_programs_as_in_torch(torch):
    check_programs(torch, range(1_000, 11_000))
