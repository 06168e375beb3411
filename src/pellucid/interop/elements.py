"""NumPy's functions that choose, compare and order elements: `np.where`, `np.clip`, `np.take`, `np.sort`."""

import math
from typing import Any, NamedTuple

import numpy as np

from pellucid import dtypes
from pellucid.core.tensor import Tensor
from pellucid.interop.reductions import flat
from pellucid.interop.shapes import broadcast_to, moveaxis
from pellucid.interop.vocabulary import (
    Array,
    as_dtype,
    as_type,
    beside,
    floating,
    floats,
    lift,
    named,
    promoted,
    torch,
    unsupported,
    written,
)  # fmt: skip

NUMBERS = (bool, int, float, complex)  # these take the dtype of the tensors beside them

# --- chosen by a condition


@named("where")
def where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    chosen = lift(condition) != 0
    if x is None and y is None:
        return torch.nonzero(chosen, as_tuple=True)
    if isinstance(x, NUMBERS) or isinstance(y, NUMBERS):
        return torch.where(chosen, *(v if isinstance(v, NUMBERS) else lift(v) for v in (x, y)))
    return torch.where(chosen, *beside(x, y))


@named("select")
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Tensor:
    result = default if isinstance(default, NUMBERS) else lift(default)
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        result = where(condition, choice, result)
    return lift(result)


@named("clip")
def clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None, max: Any = None) -> Tensor:
    bounds = (min if a_min is None else a_min, max if a_max is None else a_max)
    values, *_ = beside(a, *(bound for bound in bounds if isinstance(bound, Tensor)))
    low, high = (_bound(values, bound) for bound in bounds)
    if low is None or high is None or isinstance(low, Tensor) == isinstance(high, Tensor):
        return values if low is high is None else torch.clamp(values, low, high)
    return torch.clamp(torch.clamp(values, low), max=high)


def _bound(values: Tensor, bound: Any) -> Any:
    return bound if bound is None or isinstance(bound, (int, float)) else beside(values, bound)[1]


@named("extract")
def extract(condition: Any, arr: Any) -> Tensor:
    return torch.masked_select(lift(arr), lift(condition) != 0)


@named("compress")
def compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Tensor:
    values, axis = flat(lift(a), axis)
    (places,) = torch.nonzero(lift(condition) != 0, as_tuple=True)
    return torch.index_select(values, axis, places)


@named("nonzero")
def nonzero(a: Any) -> tuple[Tensor, ...]:
    values = lift(a)
    if values.ndim == 0:
        raise ValueError("nonzero of a 0-d tensor is not allowed: use np.atleast_1d(x).nonzero()")
    return tuple(torch.nonzero(values, as_tuple=True))


@named("flatnonzero")
def flatnonzero(a: Any) -> Tensor:
    return torch.nonzero(lift(a).reshape((-1,)), as_tuple=True)[0]


@named("argwhere")
def argwhere(a: Any) -> Tensor:
    return torch.argwhere(lift(a))


# --- chosen by number


@named("take")
def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Tensor:
    if mode != "raise":
        raise unsupported(f"np.take: mode {mode!r} is not there for tensors", "bring the indices into range first")
    values, axis = flat(lift(a), axis)
    return values[(slice(None),) * (axis % values.ndim) + (lift(indices).long(),)]


@named("take_along_axis")
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Tensor:
    values, axis = flat(lift(arr), axis)
    return torch.take_along_dim(values, _counted(indices, values.shape[axis]), axis)


def _counted(indices: Any, length: int) -> Array:
    """Indices counted from the start: PyTorch's gather takes no negative ones."""
    numbers = lift(indices).long()
    return torch.where(numbers < 0, numbers + length, numbers)


@named("put_along_axis")
def put_along_axis(arr: Any, indices: Any, values: Any, axis: Any) -> None:
    target, dim = flat(lift(arr), axis)
    places = _counted(indices, target.shape[dim])
    source = broadcast_to(lift(values).to(target.dtype), tuple(places.shape))
    written(arr, torch.scatter(target, dim, places, source).reshape(tuple(lift(arr).shape)), "np.put_along_axis")


@named("copyto")
def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    source = lift(src)
    if where is not True:
        source = torch.where(lift(where), source, lift(dst))
    written(dst, source, "np.copyto")


# --- in order


@named("sort")
def sort(
    a: Any, axis: Any = -1, kind: Any = None, order: None = None, *, stable: Any = None, descending: bool = False
) -> Tensor:
    return torch.sort(*flat(lift(a), axis), descending, stable=True).values


@named("argsort")
def argsort(
    a: Any, axis: Any = -1, kind: Any = None, order: None = None, *, stable: Any = None, descending: bool = False
) -> Tensor:
    return torch.argsort(*flat(lift(a), axis), descending, stable=True)


@named("partition")
def partition(a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: None = None) -> Tensor:
    """Sorted altogether, which is one of the ways to be partitioned."""
    return sort(a, axis)


@named("argpartition")
def argpartition(a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: None = None) -> Tensor:
    return argsort(a, axis)


@named("searchsorted")
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Tensor:
    edges, values = promoted(a, v)
    return torch.searchsorted(edges, values, side=side, **({} if sorter is None else {"sorter": lift(sorter)}))


@named("interp")
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: None = None) -> Tensor:
    points, places, heights = floats(x, xp, fp)
    above = torch.clamp(torch.searchsorted(places, points), 1, places.shape[0] - 1)
    x0, x1, y0, y1 = places[above - 1], places[above], heights[above - 1], heights[above]
    between = y0 + (y1 - y0) * ((points - x0) / (x1 - x0))
    low = torch.where(points < places[0], heights[0] if left is None else lift(left), between)
    return torch.where(points > places[-1], heights[-1] if right is None else lift(right), low)


# --- as a set


@named("unique")
def unique(
    ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False, axis: Any = None, *,
    equal_nan: bool = True, sorted: bool = True,
) -> Any:  # fmt: skip
    """As PyTorch's: every NaN counts as another value."""
    values, inverse, counts = torch.unique(lift(ar), return_inverse=True, return_counts=True, dim=axis)
    wanted = ((return_index, _first_places), (return_inverse, lambda i, c: i), (return_counts, lambda i, c: c))
    extra = tuple(make(inverse, counts) for asked, make in wanted if asked)
    return (values, *extra) if extra else values


def _first_places(inverse: Tensor, counts: Tensor) -> Array:
    """Where each of the distinct values stands first."""
    return torch.argsort(inverse.reshape((-1,)), stable=True)[torch.cumsum(counts, 0) - counts]


class unique_all_result(NamedTuple):
    values: Array
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class unique_counts_result(NamedTuple):
    values: Array
    counts: Tensor


class unique_inverse_result(NamedTuple):
    values: Array
    inverse_indices: Tensor


@named("unique_all")
def unique_all(x: Any, /) -> unique_all_result:
    return unique_all_result(*unique(x, True, True, True))


@named("unique_counts")
def unique_counts(x: Any, /) -> unique_counts_result:
    return unique_counts_result(*unique(x, return_counts=True))


@named("unique_inverse")
def unique_inverse(x: Any, /) -> unique_inverse_result:
    return unique_inverse_result(*unique(x, return_inverse=True))


@named("unique_values")
def unique_values(x: Any, /) -> Tensor:
    return unique(x)


@named("isin")
def isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *, kind: Any = None
) -> Tensor:
    return torch.isin(*promoted(element, test_elements), assume_unique=assume_unique, invert=invert)


@named("histogram")
def histogram(
    a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> tuple[Tensor, Tensor]:
    values = floating(a).reshape((-1,))
    given = {} if weights is None else {"weight": as_type(weights, values.dtype).reshape((-1,))}
    if isinstance(bins, int) and range is not None:
        given["range"] = tuple(float(bound) for bound in range)
    edges = bins if isinstance(bins, int) else as_type(bins, values.dtype)
    found = torch.histogram(values, edges, density=bool(density), **given)
    counts = found.hist if density or weights is not None else found.hist.to(dtypes.int64)
    return counts, found.bin_edges


@named("bincount")
def bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Tensor:
    return torch.bincount(lift(x), None if weights is None else lift(weights), minlength)


# --- element by element, where NumPy has no ufunc


@named("round", "around")
def round_(a: Any, decimals: int = 0, out: Any = None) -> Tensor:
    return torch.round(lift(a), decimals=decimals)


@named("fix")
def fix(x: Any, out: Any = None) -> Tensor:
    return torch.trunc(lift(x))


@named("nan_to_num")
def nan_to_num(x: Any, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Tensor:
    return torch.nan_to_num(lift(x), nan, posinf, neginf)


@named("real")
def real(val: Any) -> Tensor:
    values = lift(val)
    return torch.real(values) if values.array.dtype.kind == "c" else values


@named("imag")
def imag(val: Any) -> Tensor:
    values = lift(val)
    return torch.imag(values) if values.array.dtype.kind == "c" else values * 0


@named("angle")
def angle(z: Any, deg: bool = False) -> Tensor:
    turned = torch.angle(lift(z))
    return torch.rad2deg(turned) if deg else turned


@named("sinc")
def sinc(x: Any) -> Tensor:
    return torch.sinc(lift(x))


@named("i0")
def i0(x: Any) -> Tensor:
    return torch.special.i0(lift(x))


@named("isposinf")
def isposinf(x: Any, out: Any = None) -> Tensor:
    return torch.isposinf(lift(x))


@named("isneginf")
def isneginf(x: Any, out: Any = None) -> Tensor:
    return torch.isneginf(lift(x))


@named("isreal")
def isreal(x: Any) -> Tensor:
    return torch.isreal(lift(x))


@named("iscomplex")
def iscomplex(x: Any) -> Tensor:
    return ~torch.isreal(lift(x))


@named("unwrap")
def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: float = 2 * math.pi) -> Tensor:
    """Jumps of more than half a period between neighbours are taken out."""
    angles = moveaxis(floating(p), axis, -1)
    half = period / 2
    steps = torch.diff(angles, dim=-1)
    short = torch.remainder(steps + half, period) - half
    short = torch.where((short == -half) & (steps > 0), half, short)
    jumps = torch.where(torch.abs(steps) < (half if discont is None else max(discont, half)), 0.0, short - steps)
    return moveaxis(torch.cat([angles[..., :1], angles[..., 1:] + torch.cumsum(jumps, -1)], -1), -1, axis)


@named("polyval")
def polyval(p: Any, x: Any) -> Tensor:
    value: Any = 0
    coefficients, points = beside(p, x)
    for coefficient in coefficients:
        value = value * points + coefficient
    return value


@named("vander")
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Tensor:
    return torch.vander(lift(x), N, increasing)


# --- about dtypes


@named("result_type")
def result_type(*arrays_and_dtypes: Any) -> np.dtype:
    """NumPy's dtype, because NumPy asked; found by PyTorch's rules."""
    return common_dtype(*arrays_and_dtypes).numpy


def common_dtype(*operands: Any) -> dtypes.dtype:
    """The dtype in which tensors, numbers and dtypes meet."""
    numbers = [v for v in operands if isinstance(v, (Tensor, np.ndarray, np.generic, bool, int, float, complex))]
    named_ones = [as_dtype(v) for v in operands if not any(v is number for number in numbers)]
    found = [dtypes.result_type(*numbers)] if numbers else []
    common, *rest = found + named_ones
    for other in rest:
        common = dtypes.promote_types(common, other)
    return common


@named("can_cast")
def can_cast(from_: Any, to: Any, casting: str = "safe") -> bool:
    source = from_.dtype if isinstance(from_, Tensor) else as_dtype(from_)
    return bool(np.can_cast(source.numpy, as_dtype(to).numpy, casting))  # type: ignore[arg-type]


@named("iscomplexobj")
def iscomplexobj(x: Any) -> bool:
    return lift(x).array.dtype.kind == "c"


@named("isrealobj")
def isrealobj(x: Any) -> bool:
    return not iscomplexobj(x)
