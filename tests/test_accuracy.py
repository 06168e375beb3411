"""Long sums in float32 keep their digits: every reduction and scan, along every axis of every layout, and what is made
of them (statistics, losses, gradients of what was broadcast or picked many times).

The error is that against the same operation in float64. It may be twice PyTorch's, or a few units in the last place.
Operations are computed by native loops and, without llvmlite, by NumPy: both are held to it.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pellucid
from pellucid.core.large import added_up
from pellucid.native import kernel
from pellucid.testing import claims

LONG = 120_000
EPSILON = float(np.finfo(np.float32).eps)
FEW = 8  # units in the last place
Case = tuple[str, Callable[..., Any]]


@pytest.fixture(params=["native", "NumPy"])
def computed_by(request, monkeypatch):
    if request.param == "NumPy":
        monkeypatch.setattr(kernel, "available", lambda: False)


def numbers(kind: str, *shape: int) -> np.ndarray:
    random = np.random.default_rng(len(shape) * 7 + len(kind))
    drawn = random.random(shape)
    return {
        "constant": np.full(shape, 0.1),
        "positive": drawn,
        "offset": 1e4 + np.where(random.random(shape) < 0.5, 1, -1) * drawn,
        "near one": 1 + 2e-4 * (drawn - 0.5),
        "any": 4 * drawn - 2,
    }[kind].astype(np.float32)


def layouts(kind: str) -> Iterator[tuple[str, Callable[[Any], Any], np.ndarray, int]]:
    """(name, what makes the layout of a tensor, its numbers, the axis): LONG numbers in one line, or in 40."""
    n = LONG // 40
    yield "flat", lambda x: x, numbers(kind, LONG), 0
    yield "every other", lambda x: x[::2], numbers(kind, 2 * n), 0
    yield "rows", lambda x: x, numbers(kind, 40, n), 1
    yield "columns", lambda x: x, numbers(kind, n, 40), 0
    yield "two columns", lambda x: x, numbers(kind, LONG // 2, 2), 0
    yield "transposed rows", lambda x: x.T, numbers(kind, 40, n), 0
    yield "transposed columns", lambda x: x.T, numbers(kind, n, 40), 1
    yield "middle", lambda x: x, numbers(kind, 5, n, 8), 1
    yield "middle moved", lambda x: x.permute(2, 0, 1), numbers(kind, 5, n, 8), 2
    yield "part of the columns", lambda x: x[:, :3], numbers(kind, n, 40), 0
    yield "backwards", lambda x: x.flip(0), numbers(kind, n, 40), 0


def error(found: Any, exact: Any) -> float:
    """The largest error, in units in the last place of a number of that size; the smallest count as a tenth."""
    found, exact = found.astype(np.float64), exact.astype(np.float64)
    size = np.maximum(np.abs(exact), np.abs(exact).max() / 10 + 1e-9)
    return float((np.abs(found - exact) / size).max()) / EPSILON


def weighted_slope(function: Callable[..., Any]) -> Callable[..., Any]:
    """The gradient of a function of a tensor and an axis, for weights that are all different."""

    def slope(lib: Any, x: Any, axis: int) -> Any:
        x = x.detach().requires_grad_()
        y = function(lib, x, axis)
        weights = np.random.default_rng(1).random(tuple(y.shape))
        return lib.autograd.grad(y, x, lib.tensor(weights).to(y.dtype))[0]

    return slope


def of_parts(lib: Any, x: Any, axis: int, function: Any) -> Any:
    return lib.view_as_real(function(x * (1 - 0.5j), axis))


# operation -> the numbers it is tried on, and the call
SUMS: dict[str, Case] = {
    "sum": ("constant positive offset", lambda lib, x, d: x.sum(d)),
    "mean": ("constant offset", lambda lib, x, d: x.mean(d)),
    "nansum": ("constant", lambda lib, x, d: x.nansum(d)),
    "nanmean": ("constant", lambda lib, x, d: x.nanmean(d)),
    "prod": ("near one", lambda lib, x, d: x.prod(d)),
    "logsumexp": ("constant any", lambda lib, x, d: x.logsumexp(d)),
    "cumsum": ("constant offset any", lambda lib, x, d: x.cumsum(d)),
    "cumprod": ("near one", lambda lib, x, d: x.cumprod(d)),
    "logcumsumexp": ("constant any", lambda lib, x, d: x.logcumsumexp(d)),
    "trapezoid": ("constant", lambda lib, x, d: lib.trapezoid(x, dim=d)),
    "cumulative_trapezoid": ("constant", lambda lib, x, d: lib.cumulative_trapezoid(x, dim=d)),
    "var": ("positive offset", lambda lib, x, d: x.var(d)),
    "std": ("positive offset", lambda lib, x, d: x.std(d)),
    "var_mean": ("positive", lambda lib, x, d: lib.stack(list(lib.var_mean(x, d)))),
    "std_mean": ("positive", lambda lib, x, d: lib.stack(list(lib.std_mean(x, d)))),
    "norm": ("constant", lambda lib, x, d: lib.stack([x.norm(p, d) for p in (1, 2, 3)])),
    "dist": ("constant", lambda lib, x, d: lib.dist(x, 0 * x)),
    "softmax": ("constant any", lambda lib, x, d: x.softmax(d)),
    "log_softmax": ("constant any", lambda lib, x, d: x.log_softmax(d)),
    "_softmax_backward_data": ("constant any", weighted_slope(lambda lib, x, d: x.softmax(d))),
    "sum of all": ("constant", lambda lib, x, d: x.sum()),
    "mean of all": ("constant", lambda lib, x, d: x.mean()),
    "complex sum": ("constant", lambda lib, x, d: of_parts(lib, x, d, lib.sum)),
    "complex cumsum": ("constant", lambda lib, x, d: of_parts(lib, x, d, lib.cumsum)),
    "complex cumprod": ("near one", lambda lib, x, d: lib.view_as_real((x + 0j).cumprod(d))),
    "einsum": ("constant", lambda lib, x, d: lib.einsum("i...->...", x.movedim(d, 0))),
    "vmap": ("constant", lambda lib, x, d: lib.func.vmap(lambda line: line.cumsum(0))(x.reshape(-1, x.shape[-1]))),
    "gradient of log_softmax": ("any constant", weighted_slope(lambda lib, x, d: x.log_softmax(d))),
    "gradient of cumsum": ("any", weighted_slope(lambda lib, x, d: x.cumsum(d))),
    "gradient of cumprod": ("near one", weighted_slope(lambda lib, x, d: x.cumprod(d))),
    "gradient of logcumsumexp": ("any", weighted_slope(lambda lib, x, d: x.logcumsumexp(d))),
    "gradient of prod": ("near one", weighted_slope(lambda lib, x, d: x.prod(d))),
    "gradient of var": ("any", weighted_slope(lambda lib, x, d: x.var(d))),
    "gradient of a broadcast": (
        "constant", lambda lib, x, d: _pulled(lib, x.narrow(d, 0, 1) * 0, lambda small: small.expand(x.shape), x),
    ),
}  # fmt: skip
# Where many units are lost in PyTorch too: products, and differences of what is nearly the same.
LOOSE = {"prod": 2000, "gradient of log_softmax": 60, "_softmax_backward_data": 60}
# What adds nothing up, or whole numbers.
EXACT = {"all", "any", "count_nonzero", "cummax", "cummin", "diff"}


def _pulled(lib: Any, leaf: Any, function: Callable[[Any], Any], g: Any) -> Any:
    leaf = leaf.detach().requires_grad_()
    return lib.autograd.grad(function(leaf), leaf, g)[0]


def test_every_reduction_and_scan_is_here():
    homes = {f"pellucid.ops.{name}" for name in ("reduce", "scan", "variance", "norm", "softmax")}
    operations = {name for name, operation in claims.distinct_operations().items() if operation.home in homes}
    assert operations - EXACT - set(SUMS) == set()


def errors_of(lib: Any, call: Callable[..., Any], layout: Any, data: np.ndarray, axis: int) -> float:
    single, double = (call(lib, layout(lib.tensor(data.astype(dtype))), axis) for dtype in (np.float32, np.float64))
    return error(single.detach().numpy(), double.detach().numpy())


@pytest.mark.parametrize("name", SUMS)
def test_long_sums_keep_their_digits(name, computed_by):
    kinds, call = SUMS[name]
    for kind in (kind for kind in ("constant", "positive", "offset", "near one", "any") if kind in kinds):
        for layout, made, data, axis in layouts(kind):
            found = errors_of(pellucid, call, made, data, axis)
            assert found <= LOOSE.get(name, FEW), (kind, layout, found)


@pytest.mark.parametrize("name", SUMS)
def test_long_sums_keep_the_digits_that_pytorch_keeps(name, torch):
    kinds, call = SUMS[name]
    kind = kinds.split()[0] if kinds != "near one" else kinds
    for layout, made, data, axis in layouts(kind):
        ours, theirs = (errors_of(lib, call, made, data, axis) for lib in (pellucid, torch))
        assert ours <= max(2 * theirs, 4), (layout, ours, theirs)


def test_a_running_sum_ends_where_it_should():
    assert pellucid.full((100_000,), 0.1).cumsum(0)[-1].item() == 10000.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(3, 5001), (5003, 3), (1, 4097), (4097, 1), (4, 2048), (9, 8191), (70, 1100)])
def test_running_sums_of_every_size_and_direction(shape, axis, dtype, computed_by):
    """Rows that are no multiple of four, and slices wider than one piece; NaN and infinities stay where they were."""
    data = np.random.default_rng(3).integers(-9, 9, shape).astype(dtype)  # whole numbers: sums are exact
    for place, value in (((1, 2), np.inf), ((-1, -1), np.nan)):
        spoilt = data.copy()
        spoilt[tuple(min(max(i, -n), n - 1) for i, n in zip(place, shape, strict=True))] = value
        for values in (data, spoilt):
            x = pellucid.tensor(values, requires_grad=True)
            y = x.cumsum(axis)
            np.testing.assert_array_equal(y.detach().numpy(), np.cumsum(values, axis))
            (slope,) = pellucid.autograd.grad(y, x, pellucid.tensor(values))
            np.testing.assert_array_equal(slope.numpy(), np.flip(np.cumsum(np.flip(values, axis), axis), axis))


@pytest.mark.parametrize("shape", [(6, 7, 8), (40, 3, 50, 2), (300, 1, 40), (2, 900, 3), (1, 1, 3000)])
@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_sums_along_any_axes_of_any_layout(shape, dtype):
    rank, random = len(shape), np.random.default_rng(5)
    whole = random.integers(-9, 9, shape).astype(dtype)
    wide = random.integers(-9, 9, tuple(n + 1 for n in shape)).astype(dtype)
    arrays = [whole, whole.transpose(random.permutation(rank)), wide[tuple(slice(1, None) for _ in shape)],
              whole[::-1], np.broadcast_to(whole[:1], shape), np.asfortranarray(whole)]  # fmt: skip
    for a in arrays:
        for chosen in range(1 << rank):
            axes = tuple(i for i in range(rank) if chosen >> i & 1)
            for keepdim in (False, True):
                for order in (axes, axes[::-1]):
                    expected = np.add.reduce(a, order, keepdims=keepdim)
                    np.testing.assert_array_equal(added_up(a, order, keepdim), expected, strict=True)


# --- what is made of sums: (numbers of the first tensor, the others, the call)


def functional(lib: Any) -> Any:
    return lib.nn.functional


def picked(lib: Any, function: Callable[..., Any], index: Any, g: Any) -> Any:
    return _pulled(lib, lib.zeros(2, *g.shape[1:], dtype=g.dtype), lambda table: function(table, index), g)


N = 40_000
BY = {
    "index_add": lambda lib, x, i: lib.zeros(2, 4, dtype=x.dtype).index_add(0, i, x),
    "scatter_add": lambda lib, x, i: lib.zeros(2, dtype=x.dtype).scatter_add(0, i, x[:, 0]),
    "scatter_reduce": lambda lib, x, i: lib.zeros(2, dtype=x.dtype).scatter_reduce(0, i, x[:, 0], "mean"),
    "index_put": lambda lib, x, i: lib.zeros(2, 4, dtype=x.dtype).index_put((i,), x, accumulate=True),
    "bincount": lambda lib, x, i: lib.bincount(i, x[:, 1]),
    "segment_reduce": lambda lib, x, i: lib.segment_reduce(x, "sum", lengths=lib.tensor([9, len(i) - 9])),
    "gradient of an index": lambda lib, x, i: picked(lib, lambda table, i: table[i], i, x),
    "gradient of index_select": lambda lib, x, i: picked(lib, lambda table, i: table.index_select(0, i), i, x),
    "gradient of gather": lambda lib, x, i: picked(lib, lambda table, i: table.gather(0, i), i, x[:, 0]),
    "gradient of an embedding": lambda lib, x, i: picked(lib, lambda t, i: functional(lib).embedding(i, t), i, x),
    "embedding_bag": lambda lib, x, i: functional(lib).embedding_bag(i[None], x[:2], mode="sum"),
    "dot": lambda lib, x, i: lib.dot(x[:, 0].contiguous(), x[:, 1].contiguous()),
    "cov": lambda lib, x, i: lib.cov(x.T),
    "batch_norm": lambda lib, x, i: functional(lib).batch_norm(x, None, None, training=True),
    "batch_norm of runs": lambda lib, x, i: functional(lib).batch_norm(
        x.reshape(-1, 2, 20), None, None, training=True
    ),
    "running statistics": lambda lib, x, i: _statistics(lib, x.reshape(-1, 2, 20)),
    "layer_norm": lambda lib, x, i: functional(lib).layer_norm(x.reshape(2, -1), (x.numel() // 2,)),
    "rms_norm": lambda lib, x, i: functional(lib).rms_norm(x.reshape(2, -1), (x.numel() // 2,)),
    "group_norm": lambda lib, x, i: functional(lib).group_norm(x.reshape(2, 4, -1), 2),
    "gradient of a bias": lambda lib, x, i: _pulled(
        lib, x[0] * 0, lambda b: functional(lib).linear(x[:, :3] * 0, x[:4, :3] * 0, b), x
    ),
    "mse_loss": lambda lib, x, i: functional(lib).mse_loss(x, 0 * x),
    "l1_loss of a part": lambda lib, x, i: functional(lib).l1_loss(x[:, :3], 0 * x[:, :3]),
    "cross_entropy": lambda lib, x, i: functional(lib).cross_entropy(x, i),
    "nll_loss": lambda lib, x, i: functional(lib).nll_loss(x, i, reduction="sum"),
    "binary_cross_entropy": lambda lib, x, i: functional(lib).binary_cross_entropy_with_logits(x, 0 * x),
    "avg_pool": lambda lib, x, i: functional(lib).avg_pool1d(x.reshape(1, 1, -1), 2000),
    "adaptive_avg_pool": lambda lib, x, i: functional(lib).adaptive_avg_pool2d(x.reshape(1, 4, 100, -1), 1),
    "clip_grad_norm_": lambda lib, x, i: _clipped(lib, x),
}  # fmt: skip


def _statistics(lib: Any, x: Any) -> Any:
    mean, var = lib.zeros(2, dtype=x.dtype), lib.ones(2, dtype=x.dtype)
    functional(lib).batch_norm(x, mean, var, training=True, momentum=1.0)
    return lib.cat([mean, var])


def _clipped(lib: Any, x: Any) -> Any:
    leaf = (0 * x).requires_grad_()
    leaf.grad = x
    return lib.nn.utils.clip_grad_norm_([leaf], 1.0)


@pytest.mark.parametrize("name", BY)
def test_what_is_made_of_long_sums_keeps_the_digits_that_pytorch_keeps(name, computed_by, torch):
    index = np.random.default_rng(2).integers(0, 2, N)
    for kind in ("constant", "positive", "offset"):
        data = numbers(kind if "norm" not in name or kind != "constant" else "any", N, 4)
        found = {}
        for lib in (pellucid, torch):
            single, double = (BY[name](lib, lib.tensor(data.astype(t)), lib.tensor(index)) for t in ("f", "d"))
            found[lib] = error(single.detach().numpy(), double.detach().numpy())
        assert found[pellucid] <= max(2 * found[torch], FEW), (kind, found)


# --- halves: numbers of so few digits are added up in float32 and rounded once, in rules too


def shape_of(x: Any, *kept: int) -> list[int]:
    return [n if i in kept else 1 for i, n in enumerate(x.shape)]


def broadcast(function: Callable[[Any, Any, Any], Any], *kept: int) -> Callable[..., Any]:
    """The gradient of a small operand that was broadcast."""

    def call(lib: Any, x: Any) -> Any:
        small = lib.full(shape_of(x, *kept), 0.75, dtype=x.dtype)
        return _pulled(lib, small, lambda leaf: function(lib, x, leaf), x)

    return call


HALVES: dict[str, Callable[[Any, Any], Any]] = {
    "bias": broadcast(lambda lib, x, b: x + b, 1),
    "column": broadcast(lambda lib, x, b: x * b, 0),
    "number": broadcast(lambda lib, x, b: x / b),
    "maximum": broadcast(lambda lib, x, b: lib.maximum(x, b), 1),
    "where": broadcast(lambda lib, x, b: lib.where(x > 0.125, b, x)),
    "expand": broadcast(lambda lib, x, b: b.expand(x.shape), 1),
    "mean": lambda lib, x: _pulled(lib, x, lambda leaf: leaf.mean(), lib.ones((), dtype=x.dtype)),
    "mean of columns": lambda lib, x: _pulled(lib, x, lambda leaf: leaf.mean(0), x[0] + 1),
    "mse_loss": lambda lib, x: _pulled(
        lib, x, lambda leaf: functional(lib).mse_loss(leaf, 0 * x), lib.ones((), dtype=x.dtype)
    ),
    "var": lambda lib, x: _pulled(lib, x, lambda leaf: leaf.var(0), 64 * (x[0] + 1)),
    "cumsum": lambda lib, x: _pulled(lib, x, lambda leaf: leaf.cumsum(0), x / 64),
    "cumsum of rows": lambda lib, x: _pulled(lib, x, lambda leaf: leaf.T.cumsum(1), x.T / 64),
    "softmax": lambda lib, x: _pulled(lib, x, lambda leaf: leaf[:2000].softmax(0), 64 * x[:2000]),
    "scatter_add": lambda lib, x: lib.zeros(2, dtype=x.dtype).scatter_add(
        0, lib.arange(len(x)) % 2, x[:, 0] / 64
    ),
    "scatter_reduce": lambda lib, x: lib.zeros(2, dtype=x.dtype).scatter_reduce(
        0, lib.arange(len(x)) % 2, x[:, 0] / 64, "mean"
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", HALVES)
def test_halves_are_added_up_in_single_precision(name, dtype, torch):
    """Half a million of them: bfloat16 takes no more ones from 256 on, and float16 ends at 65504 numbers."""
    columns = np.random.default_rng(4).random((100_000, 5)) * np.array([1, 0.5, 0.1, 0.7, 0.2])
    rounded = torch.tensor(columns).to(getattr(torch, dtype)).double().numpy() / 4
    exact = HALVES[name](torch, torch.tensor(rounded)).double().numpy()
    size = np.maximum(np.abs(exact), np.abs(exact).max() / 10)
    ours, theirs = (
        np.abs(HALVES[name](lib, lib.tensor(rounded).to(getattr(lib, dtype))).double().numpy() - exact) / size
        for lib in (pellucid, torch)
    )
    epsilon = float(torch.finfo(getattr(torch, dtype)).eps)
    assert ours.max() <= max(2 * theirs.max(), 3 * epsilon)
