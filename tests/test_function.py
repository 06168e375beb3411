"""Custom functions: PyTorch's contract, the worked examples, higher order, and errors that name the class."""

import gc
import threading
import weakref

import numpy as np
import pytest

import pellucid as pl
from pellucid import func
from pellucid.autograd import Function, grad
from pellucid.autograd.function import once_differentiable
from pellucid.errors import InplaceError


def leaf(*values: float, dtype=pl.float64) -> pl.Tensor:
    return pl.tensor(list(values), dtype=dtype, requires_grad=True)


class Square(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.note = "kept"
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g


class Scale(Function):
    @staticmethod
    def forward(x, factor=2.0):
        return x * factor

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.factor = inputs[1]

    @staticmethod
    def backward(ctx, g):
        return g * ctx.factor, None


class SinCos(Function):
    """Two outputs, both saved for backward."""

    @staticmethod
    def forward(ctx, x):
        s, c = x.sin(), x.cos()
        ctx.save_for_backward(s, c)
        return s, c

    @staticmethod
    def backward(ctx, gs, gc):
        s, c = ctx.saved_tensors
        return gs * c - gc * s


# --- a worked example (mission C5; C2 to C4 are in test_golden.py)


def test_backward_that_recomputes_keeps_less():
    class Recomputing(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return (x.sin() * x).exp()

        @staticmethod
        def backward(ctx, g):
            x = ctx.saved_tensors[0].detach().requires_grad_()
            with pl.enable_grad():
                y = (x.sin() * x).exp()
            return grad(y, x, g)[0]

    x = leaf(0.1, 0.5)
    (ours,) = grad(Recomputing.apply(x).sum(), x)
    (plain,) = grad((x.sin() * x).exp().sum(), x)
    assert ours.tolist() == plain.tolist()


def test_third_party_kernel():
    class Kernel(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return pl.from_numpy(np.sinh(x.detach().numpy()))

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            return g * pl.from_numpy(np.cosh(ctx.saved_tensors[0].detach().numpy()))

    x = leaf(0.5, -1.0)
    Kernel.apply(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.cosh([0.5, -1.0]))


# --- the contract


def test_node_and_context():
    x = leaf(3.0)
    y = Square.apply(x)
    assert y.grad_fn.name() == type(y.grad_fn).__name__ == "SquareBackward"
    assert y.grad_fn.note == "kept"
    assert y.grad_fn.needs_input_grad == (True,)
    assert y.grad_fn.saved_tensors[0].tolist() == [3.0]
    assert y.grad_fn.next_functions[0][0].name() == "AccumulateGrad"
    assert isinstance(y.grad_fn, pl.autograd.graph.Node)
    y.sum().backward()
    assert y.grad_fn.note == "kept"
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.grad_fn.saved_tensors


def test_context_tells_its_name_and_a_bare_node_has_nothing():
    seen = []

    class Named(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            seen.append((ctx.name(), repr(ctx)))
            return g * 2

    y = Named.apply(leaf(1.0))
    y.backward()
    assert seen == [("NamedBackward", "<context of Named>")]
    assert not hasattr(object.__new__(type(y.grad_fn)), "note")  # asked before it has a context, as copy.copy does


def test_what_a_class_leaves_out_is_named():
    for method, arguments in (("setup_context", (None, (), None)), ("jvp", (None,)), ("vmap", (None, ()))):
        with pytest.raises(NotImplementedError, match=method):
            getattr(Function, method)(*arguments)


def test_forward_may_return_what_is_no_tensor():
    class Count(Function):
        @staticmethod
        def forward(ctx, x):
            return len(x)

    assert Count.apply(leaf(1.0, 2.0)) == 2


def test_none_and_whole_numbers_can_be_saved():
    class Largest(Function):
        @staticmethod
        def forward(ctx, x):
            value, index = x.max(0)
            ctx.save_for_backward(None, index, x)
            ctx.mark_non_differentiable(index)
            return value, index

        @staticmethod
        def backward(ctx, g, _):
            nothing, index, x = ctx.saved_tensors
            assert nothing is None and not index.requires_grad and x.requires_grad
            return pl.zeros_like(x).index_fill(0, index, 1.0) * g

    x = leaf(1.0, 5.0, 2.0)
    value, index = Largest.apply(x)
    (first,) = grad(value, x, create_graph=True)
    assert index.item() == 1 and first.tolist() == [0, 1, 0]


def test_new_style_with_defaults_and_keywords():
    x = leaf(1.0, 2.0)
    assert grad(Scale.apply(x).sum(), x)[0].tolist() == [2, 2]
    assert grad(Scale.apply(x, factor=5.0).sum(), x)[0].tolist() == [5, 5]


def test_modes_inside_forward_and_backward():
    seen = {}

    class Looking(Function):
        @staticmethod
        def forward(ctx, x):
            seen["forward"] = pl.is_grad_enabled(), ctx.needs_input_grad
            return x * 2

        @staticmethod
        def backward(ctx, g):
            seen["backward"] = pl.is_grad_enabled()
            return g * 2

    x = leaf(1.0)
    Looking.apply(x).backward()
    assert seen == {"forward": (False, (True,)), "backward": False}
    grad(Looking.apply(x), x, create_graph=True)
    assert seen["backward"] is True
    with pl.no_grad():
        assert Looking.apply(x).grad_fn is None


def test_several_outputs_and_those_without_gradient():
    received = []

    class Several(Function):
        @staticmethod
        def forward(ctx, x):
            fixed = x * 3
            ctx.mark_non_differentiable(fixed)
            return x * 2, pl.tensor(7), fixed, "text", None

        @staticmethod
        def backward(ctx, *grads):
            received.extend(grads)
            return grads[0] * 2

    x = leaf(1.0, 2.0)
    y, number, fixed, text, nothing = Several.apply(x)
    assert (y.requires_grad, number.requires_grad, fixed.requires_grad, text, nothing) == (
        True,
        False,
        False,
        "text",
        None,
    )
    assert y.grad_fn.name() == "SeveralBackward"
    y.sum().backward()
    assert received[0].tolist() == [1, 1]
    assert received[1].item() == 0
    assert received[2].tolist() == [0, 0]
    assert received[3:] == [None, None]


def test_gradients_that_did_not_arrive():
    received = []

    class Pair(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, a, b):
            received.append((a, b))
            return None

    x = leaf(1.0)
    Pair.apply(x)[1].backward()
    assert received[0][0] is None
    assert received[0][1].tolist() == [1]
    assert x.grad is None


def test_input_returned_as_output_is_another_tensor():
    class Identity(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 3

    x = leaf(1.0)
    z = x * 1
    y = Identity.apply(z)
    assert y is not z
    assert y.grad_fn.name() == "IdentityBackward"
    assert grad(y.sum(), x, retain_graph=True)[0].tolist() == [3]
    with pytest.raises(RuntimeError, match="custom function Identity"):
        y.mul_(2)
    z.mul_(2)
    with pytest.raises(RuntimeError, match="base or another view of its base has been modified inplace"):
        y.sum()


def test_mark_dirty():
    class Double_(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = leaf(1.0, 2.0, 3.0)
    z = x * 1
    assert Double_.apply(z) is z
    assert z.grad_fn.name() == "Double_Backward"
    assert grad(z.sum(), x)[0].tolist() == [2, 2, 2]
    base = x * 1
    part = base[:2]
    assert Double_.apply(part) is part
    assert base.tolist() == [2, 4, 3]
    assert grad(base.sum(), x)[0].tolist() == [2, 2, 1]
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        Double_.apply(leaf(1.0))


def test_mark_dirty_without_a_graph_still_notes_the_write():
    class Double_(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

    x, plain = leaf(1.0, 2.0), pl.tensor([3.0, 4.0], dtype=pl.float64)
    y = x * plain
    version = plain._version
    assert Double_.apply(plain) is plain and plain.grad_fn is None and plain._version > version
    with pytest.raises(InplaceError, match="overwritten by Double_"):
        y.sum().backward()
    batched = func.vmap(lambda each: Double_.apply(each * 1))(plain)
    assert batched.tolist() == [12.0, 16.0]


def test_a_view_made_inside_forward_cannot_be_changed_in_place():
    class First(Function):
        @staticmethod
        def forward(ctx, x):
            return (x * 2)[0]

        @staticmethod
        def backward(ctx, g):
            return g.expand(2) * 2

    y = First.apply(leaf(1.0, 2.0))
    with pytest.raises(RuntimeError, match="made inside the custom function First"):
        y.add_(1)
    assert First.apply(pl.ones(2)).add_(1).item() == 3  # nothing is recorded: nothing is bypassed


def test_dirty_input_must_be_returned():
    class Lost(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x * 1

    with pytest.raises(RuntimeError, match="marked as dirty"):
        Lost.apply(leaf(1.0) * 1)


def test_function_without_saved_tensors_runs_backward_twice():
    x = leaf(1.0)
    y = Scale.apply(x)
    y.backward()
    y.backward()
    assert x.grad.tolist() == [4]


def test_no_backward_and_no_forward():
    class Half(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 0.5

    with pytest.raises(NotImplementedError, match="either the backward or vjp method"):
        Half.apply(leaf(1.0)).backward()
    with pytest.raises(NotImplementedError, match="implement the forward"):
        type("Empty", (Function,), {}).apply(leaf(1.0))
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        half = Half()
    with pytest.raises(RuntimeError, match="Legacy"):
        half(leaf(1.0))


def test_graph_is_freed_without_the_garbage_collector():
    gc.disable()
    try:
        x = leaf(1.0)
        y = SinCos.apply(x)[0]
        node = weakref.ref(y.grad_fn)
        del y
        assert node() is None
    finally:
        gc.enable()


def test_threads_share_a_graph():
    x = leaf(0.1, 0.2, 0.3)
    y = x
    for _ in range(20):
        y = SinCos.apply(Square.apply(y) + 1)[0]
    loss = y.sum()
    expected = grad(loss, x, retain_graph=True)[0].tolist()
    results = []

    def work():
        for _ in range(10):
            results.append(grad(loss, x, retain_graph=True)[0].tolist())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 40


# --- higher order


def test_double_backward():
    x = leaf(0.3, -1.2)
    (first,) = grad(Square.apply(x).sin().sum(), x, create_graph=True)
    (second,) = grad(first.sum(), x)
    v = x.numpy(force=True)
    np.testing.assert_allclose(second.numpy(), 2 * np.cos(v**2) - 4 * v**2 * np.sin(v**2), rtol=1e-12)


def test_double_backward_through_saved_outputs():
    x = leaf(0.3, -1.2)
    s, c = SinCos.apply(x)
    (first,) = grad((s * c).sum(), x, create_graph=True)
    (second,) = grad(first.sum(), x, create_graph=True)
    (third,) = grad(second.sum(), x)
    v = x.numpy(force=True)
    np.testing.assert_allclose(second.detach().numpy(), -2 * np.sin(2 * v), rtol=1e-12)
    np.testing.assert_allclose(third.numpy(), -4 * np.cos(2 * v), rtol=1e-12)


def test_once_differentiable_refuses_a_second_time():
    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            return g * 2 * ctx.saved_tensors[0]

    x = leaf(3.0)
    (first,) = grad(Once.apply(x), x, create_graph=True)
    assert first.item() == 6
    with pytest.raises(RuntimeError, match=r"differentiate twice.*once_differentiable: Once"):
        grad(first, x)


def test_once_differentiable_with_several_gradients_and_with_no_graph():
    class Weighted(Function):
        @staticmethod
        def forward(ctx, x, w, times):
            ctx.save_for_backward(x, w)
            return x * w * times

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            return g * w, g * x, None

    class Negative(Function):
        @staticmethod
        def forward(ctx, x):
            return -x

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            return -g

    x, w = leaf(3.0), leaf(5.0)
    dx, dw = grad(Weighted.apply(x, w, 1.0), (x, w), create_graph=True)
    assert (dx.item(), dw.item()) == (5.0, 3.0)
    for first in (dx, dw):
        with pytest.raises(RuntimeError, match="once_differentiable: Weighted"):
            grad(first, (x, w), retain_graph=True, allow_unused=True)
    (first,) = grad(Negative.apply(x), x, create_graph=True)
    assert first.item() == -1 and not first.requires_grad  # it depends on nothing: there is nothing to refuse


# --- a wrong backward


def broken(returns):
    class Broken(Function):
        @staticmethod
        def forward(ctx, a, b):
            return a * b

        @staticmethod
        def backward(ctx, g):
            return returns(g)

    return Broken


@pytest.mark.parametrize(
    ("returns", "message"),
    [
        (lambda g: g, r"BrokenBackward returned an incorrect number of gradients \(expected 2, got 1\)"),
        (lambda g: (g, g, g), r"incorrect number of gradients \(expected 2, got 3\)"),
        (lambda g: (g, 3.0), r"expected Variable or None \(got float\)"),
        (lambda g: [g, g], r"incorrect number of gradients|got list"),
    ],
)
def test_wrong_gradients(returns, message):
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    with pytest.raises(RuntimeError, match=message) as caught:
        broken(returns).apply(x, y).sum().backward()
    assert "Broken.backward, defined at" in str(caught.value)
    assert x.grad is None


def test_surplus_none_is_allowed():
    x, y = leaf(1.0), leaf(3.0)
    broken(lambda g: (g, g, None)).apply(x, y).backward()
    assert x.grad.tolist() == [1]


def test_gradient_for_an_argument_that_is_no_tensor():
    with pytest.raises(RuntimeError, match="different than None at position 2"):
        broken(lambda g: (g, g)).apply(leaf(1.0), 2.0).backward()


SHAPES = [(3,), (1, 3), (2, 3), (4, 3), (4, 2, 3), (1,), (), (3, 1), (3, 4), (1, 1, 3), (0,), (2, 0), (0, 3), (4, 0, 3)]
EXPANDED = [(shape, wide) for shape in SHAPES for wide in SHAPES if len(wide) >= len(shape)
            and all(n in (1, m) for n, m in zip(shape, wide[len(wide) - len(shape) :], strict=True))]  # fmt: skip


def answering(shape, factor=2.0, wrapper=lambda backward: backward):
    """A function of one tensor whose backward returns a gradient of a shape: every element of it is sum(g) * factor."""

    class Answer(Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a)
            return a * a

        @staticmethod
        @wrapper
        def backward(ctx, g):
            return (g.sum() * factor).expand(shape)

    return Answer


@pytest.mark.parametrize(("shape", "wide"), EXPANDED)
def test_a_gradient_that_was_expanded_from_the_inputs_shape_is_summed(shape, wide):
    x = pl.ones(shape, requires_grad=True)
    share = 2.0 * x.numel() * (np.prod(wide) / x.numel() if x.numel() else 0)
    y, seen = answering(wide).apply(x), []
    y.grad_fn.register_hook(lambda sent, _: seen.append(tuple(sent[0].shape)))
    y.sum().backward()
    assert tuple(x.grad.shape) == shape and x.grad.tolist() == pl.full(shape, share).tolist() and seen == [shape]
    (first,) = grad((answering(wide).apply(x) ** 2).sum(), x, create_graph=True)
    assert tuple(first.shape) == shape and first.tolist() == pl.full(shape, 2 * share).tolist()
    (second,) = grad(first.sum(), x)
    assert tuple(second.shape) == shape and second.tolist() == pl.full(shape, 2 * share**2).tolist()


@pytest.mark.parametrize(("shape", "got"), [(a, b) for a in SHAPES for b in SHAPES if (a, b) not in EXPANDED])
def test_a_gradient_of_any_other_shape_is_refused(shape, got):
    x = pl.ones(shape, requires_grad=True)
    with pytest.raises(RuntimeError) as caught:
        answering(got).apply(x).sum().backward()
    text = f"returned an invalid gradient at index 0 - got {list(got)} but expected shape compatible with {list(shape)}"
    assert text in str(caught.value) and __file__ in str(caught.value) and x.grad is None


@pytest.mark.torch
def test_which_gradients_are_summed_is_as_in_pytorch(torch):
    for shape in SHAPES:
        for got in SHAPES:

            class Answer(torch.autograd.Function):
                @staticmethod
                def forward(ctx, a):
                    return a * a

                @staticmethod
                def backward(ctx, g, got=got):
                    return (g.sum() * 2.0).expand(got)

            x = torch.ones(shape, requires_grad=True)
            try:
                Answer.apply(x).sum().backward()
            except RuntimeError:
                assert (shape, got) not in EXPANDED
            else:
                mine = pl.ones(shape, requires_grad=True)
                answering(got).apply(mine).sum().backward()
                assert mine.grad.tolist() == x.grad.tolist()


class Plus(Function):
    """a + b, whose backward leaves the sums over what was broadcast to the engine."""

    generate_vmap_rule = True

    @staticmethod
    def forward(a, b):
        return a + b

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return g, g


class StackedPlus(Plus):
    generate_vmap_rule = False

    @staticmethod
    def vmap(info, dims, a, b):
        return Plus.apply(a.unsqueeze(1), b), 0


@pytest.mark.parametrize("function", [Plus, StackedPlus])
def test_a_broadcast_is_summed_under_every_transform(function):
    b = pl.arange(12.0, dtype=pl.float64).reshape(4, 3)
    a = pl.tensor([0.5, -1.0, 2.0], dtype=pl.float64)
    several = pl.stack([a, 2 * a])

    def mine(a):
        return (function.apply(a, b) ** 3).sum()

    def plain(a):
        return ((a + b) ** 3).sum()

    for transformed in (func.grad, func.jacrev, lambda f: func.jacrev(func.jacrev(f))):
        assert pl.equal(transformed(mine)(a), transformed(plain)(a))
    assert pl.equal(func.vmap(func.grad(mine))(several), func.vmap(func.grad(plain))(several))
    leaf = several.clone().requires_grad_()
    func.vmap(mine)(leaf).sum().backward()
    assert pl.equal(leaf.grad, func.vmap(func.grad(plain))(several))
    if function is Plus:  # forward mode is derived from backward
        for transformed in (func.jacfwd, func.hessian):
            assert pl.allclose(transformed(mine)(a), transformed(plain)(a), rtol=1e-14)
    assert pl.autograd.gradcheck(function.apply, (a.clone().requires_grad_(), b.clone().requires_grad_()))


def test_a_sum_of_what_may_not_be_differentiated_twice_is_refused():
    x = leaf(1.0, 2.0, 3.0)
    (first,) = grad(answering((4, 3), wrapper=once_differentiable).apply(x).sum(), x, create_graph=True)
    assert first.tolist() == [24.0] * 3
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


def test_a_gradient_of_an_argument_that_needs_none_is_not_looked_at():
    x = leaf(1.0, 2.0)
    broken(lambda g: (g, pl.ones(7, dtype=pl.complex64))).apply(x, pl.ones(2, dtype=pl.float64)).sum().backward()
    assert x.grad.tolist() == [1, 1]


def test_a_broadcast_is_summed_for_custom_operators():
    plus = pl.library.custom_op(
        "numerics::plus", lambda a, b: a + b, mutates_args=(), schema="(Tensor a, Tensor b) -> Tensor"
    )
    plus.register_autograd(lambda ctx, g: (g, g))
    a = pl.ones(3, requires_grad=True)
    plus(a, pl.ones(4, 3)).sum().backward()
    assert a.grad.tolist() == [4, 4, 4]


FLOATS, COMPLEX = ("float16", "bfloat16", "float32", "float64"), ("complex64", "complex128")


def of_dtype(lib, own, given):
    """The gradient of an input of a dtype, for which backward returned one of another; None: refused."""

    class Answer(lib.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def backward(ctx, g):
            return lib.ones(2, dtype=getattr(lib, given))

    x = lib.ones(2, dtype=getattr(lib, own), requires_grad=True)
    y = Answer.apply(x * 1).sum()
    try:
        (y.real if y.is_complex() else y).backward()
    except RuntimeError as problem:
        assert x.grad is None
        return None, str(problem)
    return str(x.grad.dtype), x.grad.tolist()


@pytest.mark.parametrize("own", [*FLOATS, *COMPLEX])
def test_a_gradient_is_cast_to_the_dtype_of_its_input_and_complex_ones_only_to_complex(own):
    for given in (*FLOATS, *COMPLEX, "int64", "bool"):
        dtype, found = of_dtype(pl, own, given)
        if given in FLOATS or (given in COMPLEX) == (own in COMPLEX):
            assert (dtype, found) == (f"torch.{own}", [1, 1])
        else:
            assert dtype is None and f"torch.{given}" in found and f"torch.{own}" in found and __file__ in found


@pytest.mark.torch
def test_which_dtypes_of_gradients_are_cast_is_as_in_pytorch(torch):
    for own in (*FLOATS, *COMPLEX):
        for given in (*FLOATS, *COMPLEX, "int64", "bool"):
            assert of_dtype(pl, own, given)[0] == of_dtype(torch, own, given)[0], (own, given)


@pytest.mark.parametrize(("own", "given"), [("float32", "complex64"), ("float32", "int64"), ("complex64", "bool")])
def test_a_tangent_of_another_kind_of_number_is_refused(own, given):
    class Answer(Function):
        @staticmethod
        def forward(a):
            return a * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def jvp(ctx, t):
            return pl.ones(2, dtype=getattr(pl, given))

    x = pl.ones(2, dtype=getattr(pl, own))
    with pytest.raises(RuntimeError, match=f"returned a tangent of torch.{given} for output 0, which is torch.{own}"):
        func.jvp(Answer.apply, (x,), (x,))


def test_a_broadcast_inside_forward_that_the_engine_cannot_know_is_named():
    x = pl.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError) as caught:
        answering((3, 4)).apply(x).sum().backward()
    assert "sum over the broadcast dimensions: grad.sum(dim=1)" in str(caught.value)


@pytest.mark.parametrize(
    ("shape", "wrong", "why", "try_"),
    [
        ((2, 3), lambda g: g.sum(0), "the gradient was reduced", "grad.expand((2, 3))"),
        ((2, 3), lambda g: g.sum(1, keepdim=True), "the gradient was reduced", "grad.expand((2, 3))"),
        ((2, 3), lambda g: g.mT, "the same sizes in another order", "grad.mT"),
        ((2, 6), lambda g: g.reshape(4, 3), "the same number of elements", "grad.reshape((2, 6))"),
        ((2, 3), lambda g: pl.ones(5, 7), "a gradient has the shape of the tensor", "a gradient of shape (2, 3)"),
    ],
)
def test_another_shape_of_gradient_is_diagnosed(shape, wrong, why, try_):
    x = pl.ones(*shape, requires_grad=True)
    with pytest.raises(RuntimeError) as caught:
        broken(lambda g: (wrong(g), None)).apply(x, 1.0).sum().backward()
    assert why in str(caught.value) and try_ in str(caught.value)
    assert x.grad is None


def test_gradient_dtype_follows_the_input():
    x = leaf(1.0, dtype=pl.float32)
    broken(lambda g: (g.double(), None)).apply(x, pl.tensor([2.0])).sum().backward()
    assert x.grad.dtype is pl.float32


def test_exception_in_backward_passes_unchanged():
    class Mine(Exception):
        pass

    def fail(g):
        raise Mine("here")

    x, y = leaf(1.0), leaf(2.0)
    x.grad = pl.tensor([5.0], dtype=pl.float64)
    with pytest.raises(Mine, match=r"^here$") as caught:
        (broken(fail).apply(x, y) + x * y).sum().backward()
    assert any(entry.name == "fail" for entry in caught.traceback)
    assert x.grad.tolist() == [5]
    assert y.grad is None
    assert pl.is_grad_enabled()


def test_saved_tensor_overwritten_in_place():
    x = leaf(1.0, 2.0)
    z = x * 1
    y = Square.apply(z)
    z.add_(1)
    with pytest.raises(InplaceError) as caught:
        y.sum().backward()
    text = str(caught.value)
    assert text.startswith("backward of Square needs a saved tensor, but that was overwritten by add_")
    assert text.count(__file__) == 2
    assert "modified by an inplace operation" in text


def test_only_tensors_can_be_saved():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, 3)
            return x

    with pytest.raises(TypeError, match="save_for_backward can only save variables, but argument 1 is of type int"):
        Wrong.apply(leaf(1.0))


def test_saved_tensor_hooks_see_custom_functions():
    packed = []

    def pack(t):
        packed.append(t.tolist())
        return t * 1

    x = leaf(3.0)
    with pl.autograd.graph.saved_tensors_hooks(pack, lambda t: t * 10):
        y = Square.apply(x)
    y.backward()
    assert packed == [[3.0]]
    assert x.grad.tolist() == [60]


# --- inside jvp and vmap


class Cube(Function):
    @staticmethod
    def forward(x):
        return x * x * x, 3 * x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], output[1])
        ctx.save_for_forward(inputs[0], output[1])

    @staticmethod
    def backward(ctx, g, g_slope):
        x, slope = ctx.saved_tensors
        return g * slope + 6 * g_slope * x

    @staticmethod
    def jvp(ctx, t):
        x, slope = ctx.saved_tensors
        return t * slope, 6 * x * t


TRANSFORMS = {
    "jvp": lambda f, x: func.jvp(f, (x,), (x * 2,))[1],
    "jvp of jvp": lambda f, x: func.jvp(lambda y: func.jvp(f, (y,), (x,))[1], (x,), (x,))[1],
    "vmap": lambda f, x: func.vmap(f)(x),
    "vmap of grad": lambda f, x: func.vmap(func.grad(f))(x),
    "grad of vmap": lambda f, x: func.grad(lambda y: func.vmap(f)(y).sum())(x),
    "forward over reverse": lambda f, x: func.jvp(func.grad(lambda y: f(y).sum()), (x,), (x,))[1],
    "reverse over forward": lambda f, x: func.grad(lambda y: func.jvp(f, (y,), (x,))[1].sum())(x),
    "hessian": lambda f, x: func.hessian(lambda y: (f(y) * y).sum())(x),
}


@pytest.mark.parametrize("view", TRANSFORMS)
@pytest.mark.parametrize("written", ["own jvp", "derived jvp"])
def test_transforms(view, written):
    function = Cube if written == "own jvp" else Square
    exact = (lambda y: y * y * y) if written == "own jvp" else (lambda y: y * y)
    x = pl.tensor([1.0, 2.0, -3.0], dtype=pl.float64)

    def custom(y):
        out = function.apply(y)
        return out[0] if isinstance(out, tuple) else out

    ours = TRANSFORMS[view](custom, x)
    plain = TRANSFORMS[view](exact, x)
    np.testing.assert_allclose(ours.numpy(), plain.numpy(), rtol=1e-12)


def test_static_vmap():
    calls = []

    class Mul(Function):
        @staticmethod
        def forward(x, w):
            return x * w

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            return g * w, g * x

        @staticmethod
        def vmap(info, in_dims, x, w):
            calls.append((info.batch_size, in_dims))
            if in_dims[1] is None:
                w = w.expand(x.shape)
            return Mul.apply(x, w), 0

    x, w = pl.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), pl.tensor([10.0, 20.0])
    assert func.vmap(Mul.apply, in_dims=(0, None))(x, w).tolist() == (x * w).tolist()
    assert calls == [(3, (0, None))]
    per_sample = func.vmap(func.grad(lambda w, x: Mul.apply(x, w).sum()), in_dims=(None, 0))(w, x)
    assert per_sample.tolist() == x.tolist()
    total = func.grad(lambda w: func.vmap(Mul.apply, in_dims=(0, None))(x, w).sum())(w)
    assert total.tolist() == [9, 12]


def test_numpy_forward_cannot_be_batched():
    class Kernel(Function):
        @staticmethod
        def forward(ctx, x):
            return pl.tensor(np.sinh(x.detach().numpy()))

        @staticmethod
        def backward(ctx, g):
            return pl.tensor(g.detach().numpy())

    with pytest.raises(RuntimeError, match="Batched"):
        func.vmap(Kernel.apply)(pl.ones(2))
    with pytest.raises(NotImplementedError, match="implement the jvp function"):
        func.jvp(Kernel.apply, (pl.ones(2),), (pl.ones(2),))


def test_a_backward_that_leaves_for_numpy_has_no_jvp_and_the_error_says_what_is_missing():
    class Doubled(Function):
        @staticmethod
        def forward(ctx, x):
            return pl.from_numpy(x.detach().numpy() * 2)

        @staticmethod
        def backward(ctx, g):
            return pl.from_numpy(g.numpy() * 2)

    x = pl.ones(2, requires_grad=True)
    Doubled.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    with pytest.raises(NotImplementedError, match="implement the jvp function"):
        func.jvp(Doubled.apply, (pl.ones(2),), (pl.ones(2),))


# --- against torch


@pytest.mark.torch
def test_same_as_torch(torch):
    def run(t):
        base = t.autograd.Function

        class Gate(base):
            @staticmethod
            def forward(ctx, x, w, power):
                y = (x @ w).tanh()
                ctx.save_for_backward(x, w, y)
                ctx.power = power
                return y**power, x.sum(0)

            @staticmethod
            def backward(ctx, g, g_sum):
                x, w, y = ctx.saved_tensors
                d = g * ctx.power * y ** (ctx.power - 1) * (1 - y * y)
                return d @ w.T + g_sum, x.T @ d, None

        values = np.random.default_rng(0).normal(size=(2, 4, 4))
        x = t.tensor(values[0], requires_grad=True)
        w = t.tensor(values[1], requires_grad=True)
        out, total = Gate.apply(x, w, 3)
        first = t.autograd.grad((out * out).sum() + (total * total).sum(), (x, w), create_graph=True)
        second = t.autograd.grad(sum((g * g).sum() for g in first), (x, w))
        return [np.array(v.tolist()) for v in (out, total, *first, *second)], type(out.grad_fn).__name__

    ours, name = run(pl)
    theirs, torch_name = run(torch)
    assert name == torch_name == "GateBackward"
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("reduce", [pl.sum, pl.mean])
def test_a_gradient_in_the_graph_has_memory_for_every_element(reduce):
    x = pl.randn(3, requires_grad=True)
    (g,) = pl.autograd.grad(reduce(x), x, create_graph=True)
    reduce(x).backward(create_graph=True)
    for gradient in (g, x.grad):
        rest = gradient[1:].tolist()
        gradient[0] = 7.0
        assert gradient.tolist() == [7.0, *rest]


def doing(forward, backward, **others):
    """A custom function made of plain functions."""
    methods = {"forward": forward, "backward": backward, **others}
    wrapped = {name: staticmethod(value) if callable(value) else value for name, value in methods.items()}
    return type("Made", (Function,), wrapped)


def test_backward_meets_the_very_tensor_that_was_saved():
    seen = []

    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x * weight

    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        seen.extend((x, weight))
        weight.main_grad = g * x
        return g * weight, None

    x, weight = leaf(2.0), leaf(3.0)
    product = doing(forward, backward).apply(x, weight)
    product.sum().backward(retain_graph=True)
    assert seen[0] is x and seen[1] is weight
    assert weight.main_grad.tolist() == [2.0]
    with pl.no_grad():
        weight.set_(weight.clone())  # no longer what was saved: backward gets another tensor, with the saved value
    product.sum().backward()
    assert seen[3] is not weight and seen[3].tolist() == [3.0]


def test_a_tensor_returned_twice_stays_one():
    def forward(ctx, x):
        output = x * 2
        return output, output

    x = leaf(1.0)
    a, b = doing(forward, lambda ctx, g, h: 2 * (g + h)).apply(x)
    assert a is b
    (a + 3 * b).sum().backward()
    assert x.grad.tolist() == [8.0]


def test_gradients_in_a_box():
    left = []

    def backward(ctx, grads):
        first = grads.pop(0)
        left.append(len(grads))
        return first * 2 + grads[0] * 3

    boxed = doing(lambda ctx, x: (x * 2, x * 3), backward, boxed_grads_call=True)
    x = leaf(1.0)
    a, b = boxed.apply(x)
    (a + 10 * b).sum().backward()
    assert x.grad.tolist() == [32.0] and left == [1]


def test_saved_tensors_that_may_be_read_once():
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clone()

    def twice(ctx, g):
        return g * (ctx.saved_tensors[0] + ctx.saved_tensors[0])

    with pytest.raises(RuntimeError, match="can only be accessed once"):
        doing(forward, twice, clear_saved_tensors_on_access=True).apply(leaf(1.0)).sum().backward()
    doing(forward, twice).apply(leaf(1.0)).sum().backward()


def test_two_backwards_and_dirty_strangers_are_refused():
    def same(ctx, g):
        return g

    with pytest.raises(RuntimeError, match="Implementing both 'backward' and 'vjp'"):
        doing(lambda ctx, x: x.clone(), same, vjp=same).apply(leaf(1.0)).sum().backward()

    def marks(made):
        def forward(ctx, x):
            output = made(x)
            ctx.mark_dirty(output)
            return output

        return doing(forward, same)

    with pytest.warns(UserWarning, match="not an input"):
        assert marks(lambda x: x * 1).apply(leaf(1.0)).requires_grad
    with pytest.raises(RuntimeError, match="not an input"):
        marks(lambda x: x.clone().view_as(x)).apply(leaf(1.0).clone())


def test_forward_mode_follows_a_change_in_place():
    def forward(ctx, x, factor):
        ctx.factor = factor
        ctx.mark_dirty(x)
        return x.mul_(factor)

    def in_place(ctx, t, _):
        return t.mul_(ctx.factor)

    def elsewhere(ctx, t, _):
        return t * ctx.factor

    def backward(ctx, g):
        return g * ctx.factor, None

    def f(x, jvp):
        y = x * x
        z = doing(forward, backward, jvp=jvp).apply(y, 3.0)
        assert z is y
        return z.sum()

    x, t = pl.tensor([1.0, 2.0]), pl.tensor([1.0, 10.0])
    value, slope = func.jvp(lambda x: f(x, in_place), (x,), (t,))
    assert value.item() == 15.0 and slope.item() == 3 * 2 + 3 * 40 and x.tolist() == [1.0, 2.0]
    assert func.hessian(lambda x: f(x, in_place))(x).tolist() == [[6.0, 0.0], [0.0, 6.0]]
    with pytest.raises(RuntimeError, match="must modify the corresponding"):
        func.jvp(lambda x: f(x, elsewhere), (x,), (t,))


@pytest.mark.parametrize(
    ("jvp", "message"),
    [
        (lambda ctx, t: t, "returned 1 gradients from jvp, expected 2"),
        (lambda ctx, t: (t, t), "return None at that position"),
        (lambda ctx, t: (t.sum(), None), "tangent of shape"),
    ],
)
def test_what_jvp_returns_is_checked(jvp, message):
    def forward(ctx, x):
        fixed = x.round()
        ctx.mark_non_differentiable(fixed)
        return x.clone(), fixed

    with pytest.raises(RuntimeError, match=message):
        func.jvp(lambda x: doing(forward, lambda ctx, g, h: g, jvp=jvp).apply(x), (pl.ones(2),), (pl.ones(2),))


def test_jvp_sees_what_was_saved_for_forward_and_no_zeros_for_integers():
    seen = []

    def forward(ctx, x, index):
        ctx.save_for_backward(x)
        ctx.save_for_forward(x, x)
        return x.clone()

    def jvp(ctx, t, of_index):
        seen.extend((len(ctx.saved_tensors), of_index))
        return t

    made = doing(forward, lambda ctx, g: (g, None), jvp=jvp)
    func.jvp(lambda x: made.apply(x, pl.tensor(3)), (pl.ones(2),), (pl.ones(2),))
    assert seen == [2, None]


def test_a_node_can_be_called_by_hand():
    x = leaf(1.0, 2.0)
    y = x**2
    step = y.grad_fn(pl.tensor([1.0, 10.0], dtype=pl.float64))
    assert step.tolist() == [2.0, 40.0] and step.requires_grad
    assert (x * 3).grad_fn(pl.ones(2))[1] is None
    with pytest.raises(TypeError, match="expected 1 arguments, got 2"):
        y.grad_fn(x.detach(), x.detach())
    assert Square.apply(x).grad_fn.apply(pl.ones(2)).tolist() == [2.0, 4.0]
    x.view_as(x).grad_fn.next_functions[0][0](pl.ones(2))
    assert x.grad.tolist() == [1.0, 1.0]


class TwoResults(pl.autograd.Function):
    """Whose backward knows a gradient of y that only the first result asks for, and a constant one of z."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, y, z):
        return x * y, x.sin() + z

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g, h):
        x, y, _ = ctx.saved_tensors
        return g * y + h * x.cos(), g * x, x * 0 + 1


def test_gradients_made_of_saved_values_alone_leave_vmap():
    x = pl.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y, z = pl.ones(2, requires_grad=True), pl.ones(2, requires_grad=True)
    pl.vmap(lambda x: TwoResults.apply(x, y, z)[1])(x).sum().backward()
    assert (y.grad.tolist(), z.grad.tolist()) == ([0, 0], [2, 2])


def test_an_argument_that_may_not_be_used_is_refused_before_forward_writes_to_it():
    class Twice(pl.autograd.Function):
        @staticmethod
        def forward(x):
            return x.mul_(2)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.mark_dirty(*inputs)

    y = pl.ones(2, requires_grad=True) * 1.5
    first, _ = y.split(1)
    y[1] = 0.5
    with pytest.raises(RuntimeError, match="a view was used whose base"):
        Twice.apply(first)
    assert y.tolist() == [1.5, 0.5]
