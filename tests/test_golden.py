"""The golden numbers of the mission that concern the engine: sections 1.1 (on tensors), 1.3, 1.4, 1.5 and 1.9."""

import warnings
import weakref

import numpy as np
import pytest

import pellucid as torch
from pellucid.core.function import Function
from pellucid.errors import InplaceError


def scalars(*values):
    return [torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in values]


def grads(loss, *leaves):
    loss.backward()
    return [leaf.grad.item() for leaf in leaves]


# --- 1.1 the table of expressions, with tensors in place of scalars


def exp_share(x, z):
    return x.exp() / (x.exp() + z.exp())


EXPRESSIONS = [
    ("(wx+b)²", lambda w, x, b: (w * x + b) ** 2, (2, 3, 1), 49, (42, 28, 14)),
    ("(xw+b)²", lambda x, w, b: (x * w + b) ** 2, (2, 3, 1), 49, (42, 28, 14)),
    ("x·x+x", lambda x: x * x + x, (3,), 12, (7,)),
    ("(a+a)a", lambda a: (a + a) * a, (2,), 8, (8,)),
    ("ab", lambda a, b: a * b, (2, 3), 6, (3, 2)),
    ("(a+b)b", lambda a, b: (a + b) * b, (2, 3), 15, (3, 8)),
    ("aa", lambda a: a * a, (3,), 9, (6,)),
    ("(3x+1)²", lambda x: ((x * 3) + 1) ** 2, (2,), 49, (42,)),
    ("(wx+b-t)²", lambda w, x, b: (w * x + b - 0.8) ** 2, (0.5, 2, 0.1), 0.09, (1.2, 0.3, 0.6)),
    ("(ab+c)(a-c)", lambda a, b, c: (a * b + c) * (a - c), (2, 3, 4), -20, (4, -4, -12)),
    ("x³", lambda x: x**3, (2,), 8, (12,)),
    ("(2x+1)³", lambda x: (2 * x + 1) ** 3, (1,), 27, (54,)),
    ("x³ sin x", lambda x: x**3 * x.sin(), (1.5,), 3.366546, (6.971829,)),
    ("eˣ/(eˣ+eᶻ)", exp_share, (1, 2), 0.268941, (0.196612, -0.196612)),
]


@pytest.mark.parametrize(
    ("name", "function", "at", "value", "slopes"), EXPRESSIONS, ids=[row[0] for row in EXPRESSIONS]
)
def test_expressions(name, function, at, value, slopes):
    leaves = scalars(*(float(number) for number in at))
    result = function(*leaves)
    assert result.item() == pytest.approx(value, abs=5e-7)
    assert grads(result, *leaves) == pytest.approx(list(slopes), abs=5e-7)


def test_relu_and_tanh_slopes():
    points = [-2.0, -0.5, 0.5, 2.0]
    x = torch.tensor(points, requires_grad=True)
    x.relu().sum().backward()
    assert x.grad.array.tolist() == [0, 0, 1, 1]
    x.grad = None
    x.tanh().sum().backward()
    assert x.grad.array.tolist() == pytest.approx([0.0707, 0.7864, 0.7864, 0.0707], abs=5e-5)


def test_relu_at_zero_has_slope_zero():
    (x,) = scalars(0.0)
    assert grads(x.relu(), x) == [0.0]


def test_intermediate_gradients():
    (x,) = scalars(2.0)
    a = x * 3
    b = a + 1
    c = b**2
    for tensor in (a, b, c):
        tensor.retain_grad()
    c.backward()
    assert [tensor.grad.item() for tensor in (c, b, a, x)] == [1, 14, 14, 42]


def test_one_neuron_learns():
    w, b = scalars(0.3, 0.1)
    for step in range(20):
        loss = ((w * 2.0 + b).tanh() - 0.8) ** 2
        if step == 0:
            assert loss.item() == pytest.approx(0.0383, abs=5e-5)
        loss.backward()
        with torch.no_grad():
            for parameter in (w, b):
                parameter -= 0.5 * parameter.grad
                parameter.grad = None
    y = (w * 2.0 + b).tanh()
    assert loss.item() < 1e-16
    assert y.item() == pytest.approx(0.8, abs=1e-8)
    assert (w.item(), b.item()) == pytest.approx((0.4594, 0.1797), abs=5e-5)


# --- 1.3 the tensor engine


def test_T1_lists_become_float32():
    x = torch.tensor([[1.0, 2.0]], requires_grad=True)
    assert x.dtype == torch.float32
    assert tuple(x.shape) == (1, 2)
    assert x.grad is None
    x.sum().backward()
    x.grad = None
    assert x.grad is None


def test_T2_only_what_requires_grad_gets_one():
    x, c = torch.ones(2, requires_grad=True), torch.ones(2)
    y = x * c
    assert y.requires_grad
    assert not (c * c).requires_grad
    assert y.node.saved[1] is None  # nothing is kept for the input without gradient
    y.sum().backward()
    assert c.grad is None


@pytest.mark.parametrize(
    ("small", "large", "expected"),
    [((4,), (3, 4), 3.0), ((1, 8), (4, 8), 4.0), ((), (2, 5), 10.0), ((2, 1), (2, 3), 3.0)],
)
def test_T3_broadcast_gradients_are_summed_back(small, large, expected):
    a = torch.zeros(*small, requires_grad=True) if small else torch.tensor(0.0, requires_grad=True)
    (a + torch.ones(*large)).sum().backward()
    assert a.grad.array.shape == small
    assert np.all(a.grad.array == expected)


def test_T4_matmul():
    a = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    b = torch.tensor([[5.0, 6.0], [7.0, 8.0]], requires_grad=True)
    c = a @ b
    assert c.array.tolist() == [[19, 22], [43, 50]]
    c.sum().backward()
    assert a.grad.array.tolist() == [[11, 15], [11, 15]]
    assert b.grad.array.tolist() == [[4, 4], [6, 6]]


def test_T4_batched_matmul_is_summed_back():
    a = torch.ones(5, 2, 3, requires_grad=True)
    b = torch.ones(3, 4, requires_grad=True)
    (a @ b).sum().backward()
    assert a.grad.array.shape == (5, 2, 3)
    assert np.all(a.grad.array == 4)
    assert b.grad.array.shape == (3, 4)
    assert np.all(b.grad.array == 10)


def test_T4_numbers_on_both_sides():
    (x,) = scalars(2.0)
    assert grads(3 + x * 2 - 1 + (5 - x) * 3 + 8 / x - (-x), x) == [2 - 3 - 2 + 1]


def test_T5_sum_and_mean():
    x = torch.ones(2, 3, requires_grad=True)
    x.mean().backward()
    assert x.grad.array.tolist() == pytest.approx(np.full((2, 3), 1 / 6))
    for dim in (0, 1, (0, 1), None):
        for keepdim in (True, False):
            total = x.sum(dim, keepdim=keepdim) if dim is not None else x.sum()
            assert np.allclose(total.array, x.array.sum(dim, keepdims=keepdim and dim is not None))


def test_T7_a_gradient_of_the_wrong_shape_is_refused():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return torch.ones(2)

    x = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="shape"):
        Wrong.apply(x).sum().backward()
    assert x.grad is None


def test_T7_a_gradient_that_was_expanded_is_summed():
    class Expanded(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return torch.ones(2, 3)

    x = torch.ones(3, requires_grad=True)
    Expanded.apply(x).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


XOR = ([[0, 0], [0, 1], [1, 0], [1, 1]], [[0], [1], [1], [0]])


def train_xor(torch, dtype, rate, steps):
    """A 2-8-1 tanh net; the same loop in either library."""
    random = np.random.RandomState(42)
    w1 = torch.tensor(random.randn(2, 8) * 0.5, dtype=dtype, requires_grad=True)
    b1 = torch.zeros(1, 8, dtype=dtype, requires_grad=True)
    w2 = torch.tensor(random.randn(8, 1) * 0.5, dtype=dtype, requires_grad=True)
    b2 = torch.zeros(1, 1, dtype=dtype, requires_grad=True)
    x, t = (torch.tensor(rows, dtype=dtype) for rows in XOR)
    losses = []
    for _ in range(steps):
        y = (x @ w1 + b1).tanh() @ w2 + b2
        loss = ((y - t) ** 2).mean()
        losses.append(loss.item())
        loss.backward()
        with torch.no_grad():
            for parameter in (w1, b1, w2, b2):
                parameter -= rate * parameter.grad
                parameter.grad = None
    return losses, y


def test_T8_xor_first_fifty_steps():
    """Beyond step 50 this run is chaotic: rounding decides whether it converges or explodes.

    With PyTorch 2.13 it gives .0176 at step 100 and 3e-10 at the end in float32, and 1e147 in float64.
    """
    losses, _ = train_xor(torch, torch.float32, 0.5, 51)
    assert losses[0] == pytest.approx(1.0835, abs=5e-5)
    assert losses[50] == pytest.approx(0.143, abs=5e-4)


def test_T8_xor_is_learnt():
    losses, y = train_xor(torch, torch.float32, 0.2, 2_000)
    assert losses[0] == pytest.approx(1.0835, abs=5e-5)
    assert losses[-1] < 1e-6
    assert y.array.round().ravel().tolist() == [0, 1, 1, 0]


def test_T8_xor_same_curve_as_pytorch(torch):
    import pellucid

    ours, _ = train_xor(pellucid, pellucid.float64, 0.2, 300)
    theirs, _ = train_xor(torch, torch.float64, 0.2, 300)
    assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-12)


def test_T9_gradients_have_operand_shapes():
    q, k = torch.ones(3, 4, requires_grad=True), torch.ones(5, 4, requires_grad=True)
    (q @ k.T).sum().backward()
    assert q.grad.array.shape == (3, 4)
    assert k.grad.array.shape == (5, 4)
    u, v = torch.ones(6, requires_grad=True), torch.ones(6, requires_grad=True)
    (u @ v).backward()
    assert u.grad.array.shape == v.grad.array.shape == (6,)


def test_T10_manual_two_layer_net():
    random = np.random.RandomState(42)
    w1 = torch.tensor(random.randn(3, 2) * 0.1, requires_grad=True)
    w2 = torch.tensor(random.randn(1, 3) * 0.1, requires_grad=True)
    b1, b2 = torch.zeros(3, 1, dtype=torch.float64), torch.zeros(1, 1, dtype=torch.float64)
    b1.requires_grad_()
    b2.requires_grad_()
    x = torch.tensor(np.array([[1.0], [2.0]]), requires_grad=True)
    a1 = (w1 @ x + b1).relu()
    a1.retain_grad()
    prediction = w2 @ a1 + b2
    loss = (0.5 * (prediction - 1.0) ** 2).sum()
    assert prediction.item() == pytest.approx(0.031824, abs=5e-7)
    assert loss.item() == pytest.approx(0.468682, abs=5e-7)
    loss.backward()
    delta2 = prediction.array - 1.0
    delta1 = (w2.array.T @ delta2) * (a1.array > 0)
    for tensor, expected in ((w2, delta2 @ a1.array.T), (b2, delta2), (w1, delta1 @ x.array.T), (b1, delta1)):
        assert np.allclose(tensor.grad.array, expected)
    assert [t.grad.array.shape for t in (w2, w1, x)] == [(1, 3), (3, 2), (2, 1)]
    assert (a1.detach() @ torch.tensor(delta2).T).array.shape == (3, 1)  # the wrong product has the wrong shape


# --- 1.4 the autograd API


def test_A1_leaves_and_nodes():
    w, x, b = scalars(2.0, 3.0, 1.0)
    z = w * x + b
    assert w.is_leaf
    assert w.grad_fn is None
    assert z.grad_fn.name() == "AddBackward0"
    assert [node.name() for node, _ in z.grad_fn.next_functions] == ["MulBackward0", "AccumulateGrad"]
    assert (z**2).grad_fn.name() == "PowBackward0"
    assert torch.ones(1).requires_grad_().requires_grad


def test_A2_grad_is_kept_on_leaves_only():
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    y.sum().backward()
    with pytest.warns(UserWarning, match="not a leaf"):
        assert y.grad is None
    y = x * 2
    y.retain_grad()
    y.sum().backward()
    assert y.grad.array.tolist() == [1, 1]


def test_A3_a_second_backward_needs_a_retained_graph():
    (x,) = scalars(2.0)
    loss = x.exp()
    loss.backward(retain_graph=True)
    loss.backward()
    with pytest.raises(RuntimeError, match="second time") as caught:
        loss.backward()
    assert "loss_a + loss_b" in str(caught.value)


def test_A4_gradients_accumulate():
    (x,) = scalars(2.0)
    (x**2).backward()
    assert x.grad.item() == 4
    (x**2).backward()
    assert x.grad.item() == 8
    x.grad.zero_()
    (x**2).backward()
    assert x.grad.item() == 4


def test_A5_zeroing():
    x = torch.ones(2, requires_grad=True)
    x.sum().backward()
    x.grad.zero_()
    assert x.grad.array.tolist() == [0, 0]
    x.grad = None
    assert x.grad is None


def test_A6_backward_of_many_numbers_wants_their_weights():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="scalar outputs"):
        (x * x).backward()
    assert x.grad is None
    (x * x).backward(torch.ones(2))
    first = x.grad.array.tolist()
    x.grad = None
    (x * x).sum().backward()
    assert x.grad.array.tolist() == first == [2, 4]


def test_A7_detach_shares_memory_and_its_writes_are_noticed():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x.exp()
    d = y.detach()
    assert d.grad_fn is None
    assert not d.requires_grad
    d[0] = 5.0
    assert y.array[0] == 5.0
    with pytest.raises(InplaceError):
        y.sum().backward()


def test_A8_numpy():
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="detach"):
        x.numpy()
    array = x.detach().numpy()
    assert array.tolist() == [1, 1]
    assert not torch.from_numpy(array).requires_grad


def test_A10_in_place():
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        x.add_(1)
    y = x.exp()
    y.add_(1)
    with pytest.raises(InplaceError, match="overwritten by add_"):
        y.sum().backward()
    y = x * 2
    y.add_(1)
    y.sum().backward()
    assert x.grad.array.tolist() == [2, 2]


def test_A11_intermediates_are_freed():
    x = torch.ones(3, requires_grad=True)
    y = (x * 2).exp()
    kept = weakref.ref(y.array)
    loss = y.sum()
    del y
    loss.backward()
    assert kept() is None
    assert x.grad is not None


def test_A12_four_small_batches_are_one_large_one():
    random = np.random.default_rng(0)
    data, target = random.standard_normal((128, 5)), random.standard_normal((128, 1))

    def loss(w, rows):
        error = torch.tensor(data[rows]) @ w - torch.tensor(target[rows])
        return (error * error).mean()

    together = torch.tensor(np.ones((5, 1)), requires_grad=True)
    loss(together, slice(None)).backward()
    apart = torch.tensor(np.ones((5, 1)), requires_grad=True)
    for k in range(4):
        (loss(apart, slice(32 * k, 32 * k + 32)) / 4).backward()
    assert np.allclose(apart.grad.array, together.grad.array, rtol=1e-12)


def test_A13_the_last_step_makes_the_leaf():
    assert (torch.randn(2) * 0.5).requires_grad_().is_leaf
    assert not (torch.randn(2, requires_grad=True) * 0.5).is_leaf


def test_A14_the_graph_is_what_ran():
    def run(x):
        y = x
        while y.item() < 10:
            y = y * 2 if y.item() < 4 else y * y
        return y

    for start, value, slope in ((1.0, 16.0, 32.0), (3.0, 36.0, 24.0), (11.0, 11.0, 1.0)):
        (x,) = scalars(start)
        y = run(x)
        assert y.item() == value
        assert grads(y, x) == [slope]


# --- 1.5 custom functions


class ClampedSigmoid(Function):
    @staticmethod
    def forward(ctx, x, least):
        y = x.sigmoid()
        ctx.save_for_backward(y)
        ctx.least = least
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * (y * (1 - y)).clamp(min=ctx.least), None


def test_C2_clamped_sigmoid():
    points = [-5.0, -2.0, 0.0, 2.0, 5.0]
    x = torch.tensor(points, requires_grad=True)
    ClampedSigmoid.apply(x, 0.01).sum().backward()
    assert x.grad.array.tolist() == pytest.approx([0.01, 0.105, 0.25, 0.105, 0.01], abs=5e-5)
    x.grad = None
    x.sigmoid().sum().backward()
    assert x.grad.array.tolist() == pytest.approx([0.0066, 0.105, 0.25, 0.105, 0.0066], abs=5e-5)


class StraightThroughRound(Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, g):
        return g


def test_C3_straight_through_round():
    x = torch.tensor([0.3, 0.7, 1.2, 1.8], requires_grad=True)
    y = StraightThroughRound.apply(x)
    assert y.array.tolist() == [0, 1, 1, 2]
    y.sum().backward()
    assert x.grad.array.tolist() == [1, 1, 1, 1]


class StableLogSumExp(Function):
    @staticmethod
    def forward(ctx, x):
        top = x.max()
        y = top + (x - top).exp().sum().log()
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * (x - y).exp()


def test_C4_log_sum_exp():
    values = [1000.0, 1001.0, 1002.0]
    share = [0.0900, 0.2447, 0.6652]
    for function in (StableLogSumExp.apply, lambda x: x.logsumexp(0)):
        x = torch.tensor(values, dtype=torch.float64, requires_grad=True)
        y = function(x)
        assert y.item() == pytest.approx(1002.4076, abs=5e-5)
        y.backward()
        assert x.grad.array.tolist() == pytest.approx(share, abs=5e-5)


def test_C4_naive_log_sum_exp_overflows_without_an_exception():
    x = torch.tensor([1000.0, 1001.0, 1002.0], requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        y = x.exp().sum().log()
        y.backward()
    assert np.isinf(y.item())
    assert np.all(np.isnan(x.grad.array))
