"""Scans: running sums, products, extremes along one dimension.

The gradients of cumprod and logcumsumexp are one linear recurrence running backwards (`carried`), worked out in
log2(n) whole-array steps: no division, so zeros and infinities among the elements do no harm.
"""

import math
from typing import Any

import numpy as np

from pellucid import dtypes, return_types
from pellucid.core.kinds import plain
from pellucid.core.primitive import constant, general, multilinear
from pellucid.core.primitive import elementwise as elementwise_row
from pellucid.core.record import bind
from pellucid.core.tensor import Tensor
from pellucid.native import MANY, native
from pellucid.native.words import Array, Doubles, least, wide
from pellucid.ops.along import bare, handed_out, lengthwise, line_samples, taker
from pellucid.ops.arguments import axis_of, refusal, refuse
from pellucid.ops.axes import flip_row
from pellucid.ops.convert import as_type, cast_row, clone
from pellucid.ops.elementwise import exp, logaddexp_of
from pellucid.ops.formats import in_order
from pellucid.ops.join import cat
from pellucid.ops.operation import Draw, Sample, call, operation
from pellucid.ops.slicing import slice_row, unslice_row

add_accumulate = np.add.accumulate
multiply_accumulate = np.multiply.accumulate


# --- steps along an axis, spelled with rows so that they differentiate themselves


def part(axis: int, start: int | None, stop: int | None, step: int | None = None) -> tuple[Any, ...]:
    """The index of a part of one axis."""
    return (*(slice(None),) * axis, slice(start, stop, step), ...)


def ahead(a: Any, distance: int, axis: int) -> Any:
    """At every place the element `distance` further on; zero beyond the end."""
    return unslice_row(slice_row(a, part(axis, distance, None)), tuple(a.shape), part(axis, None, -distance))


def before(a: Any, axis: int) -> Any:
    """At every place the element before it; one at the beginning."""
    shape = tuple(a.shape)
    beginning = (np.arange(shape[axis]) == 0).reshape(-1, *(1,) * (len(shape) - 1 - axis))
    return unslice_row(slice_row(a, part(axis, None, -1)), shape, part(axis, 1, None)) + beginning


# In which PyTorch adds up: results are rounded once. E is bfloat16.
WIDE: dict[str, np.dtype] = {
    "e": np.dtype(np.float32), "E": np.dtype(np.float32), "f": np.dtype(np.float64), "F": np.dtype(np.complex128),
}  # fmt: skip


def in_double(compute: Any) -> Any:
    """A function of a gradient, another array and an axis that is computed in double precision and rounded once."""

    def computed(g: Any, a: Any, axis: int) -> Any:
        single = plain((g.array if isinstance(g, Tensor) else g).dtype)
        double = WIDE.get(single.char)
        if double is None:
            return compute(g, a, axis)
        return cast_row(compute(*(cast_row(each, double, single) for each in (g, a)), axis), single, double)

    return computed


@in_double
def carried(g: Any, factor: Any, axis: int) -> Any:
    """s[j] = g[j] + factor[j] * s[j + 1], from the end: each round doubles how far ahead is summed up."""
    distance, size = 1, g.shape[axis]
    while distance < size:
        g = g + factor * ahead(g, distance, axis)
        factor = factor * ahead(factor, distance, axis)
        distance *= 2
    return g


def scan_samples(draw: Draw) -> list[Sample]:
    """Along one dimension, empty ones too."""
    return [*line_samples(draw), call(draw(0), 0), call(draw(2, 0), 0), call(draw(2, 0), 1), call(draw(9), 0)]


# --- sums


COLUMNS = 1024  # numbers side by side whose running sums stay in the cache


def _accumulated(accumulate: Any, a: np.ndarray, axis: int) -> Any:
    """As PyTorch does it: integers in 64 bits, single precision in double."""
    if a.dtype.char in WIDE:
        return accumulate(a, axis, WIDE[a.dtype.char]).astype(a.dtype)
    return accumulate(a, axis, np.int64 if a.dtype.kind in "biu" else None)


def _running_sums(a: np.ndarray, axis: int, backwards: bool) -> np.ndarray:
    """Sums up to every element, or from it to the end.

    NumPy's accumulate waits for each sum before it begins the next.
    """
    if a.size >= MANY and running_slices_loop.available(a.dtype):
        return _sums_by_loop(np.ascontiguousarray(a), axis, backwards)
    if axis < a.ndim - 1 and a.size >= 64 * a.shape[axis] > 0:
        return _sums_of_slices(a, axis, backwards)
    if not backwards:
        return np.asarray(_accumulated(add_accumulate, a, axis))
    turned = part(axis, None, None, -1)
    return np.asarray(_accumulated(add_accumulate, a[turned], axis)[turned])


def _sums_by_loop(a: np.ndarray, axis: int, backwards: bool) -> np.ndarray:
    y, size, width = np.empty(a.shape, a.dtype), a.shape[axis], math.prod(a.shape[axis + 1 :])
    if width == 1:
        if a.dtype.char == "f":
            running_singles_loop(a.size // size, size, a, y, size, backwards)
        else:
            running_doubles_loop(a.size // size, size, a, y, size, backwards)
        return y
    pieces = -(-width // COLUMNS)
    sums = np.zeros(a.size // size)
    stacks = sums.size // width
    running_slices_loop(stacks * pieces, size * min(width, COLUMNS), a, y, sums, size, width, pieces, backwards)
    return y


@native
def running_doubles_loop(first: int, last: int, a: Array, y: Array, n: int, backwards: int) -> None:
    """The running sums of rows of n numbers, four rows at a time: an addition waits for the one before in its row."""
    step = -1 if backwards else 1
    begin = n - 1 if backwards else 0
    fours = first + (last - first) // 4 * 4
    for row in range(first, fours, 4):
        at = row * n + begin
        one, two, three, four = 0.0, 0.0, 0.0, 0.0
        for _ in range(n):
            one = one + a[at]
            two = two + a[at + n]
            three = three + a[at + 2 * n]
            four = four + a[at + 3 * n]
            y[at] = one
            y[at + n] = two
            y[at + 2 * n] = three
            y[at + 3 * n] = four
            at = at + step
    for row in range(fours, last):
        at = row * n + begin
        one = 0.0
        for _ in range(n):
            one = one + a[at]
            y[at] = one
            at = at + step


@native
def running_singles_loop(first: int, last: int, a: Array, y: Array, n: int, backwards: int) -> None:
    """The same of float32, added up in float64, in fours: one addition waits for the one before, not four.

    Each direction for itself, so that vectors convert four numbers at a time: 1024x1024 in 0.25 ms, and 0.31 when the
    direction is a variable and four rows take turns. A million numbers in one row: 0.47, in turn 0.96.
    """
    for row in range(first, last):
        before = wide(0.0)
        if backwards:
            at = row * n + n - 1
            for _ in range(n // 4):
                one = wide(a[at])
                two = one + a[at - 1]
                three = two + a[at - 2]
                four = three + a[at - 3]
                y[at] = before + one
                y[at - 1] = before + two
                y[at - 2] = before + three
                y[at - 3] = before + four
                before = before + four
                at = at - 4
            for _ in range(n % 4):
                before = before + a[at]
                y[at] = before
                at = at - 1
        else:
            at = row * n
            for _ in range(n // 4):
                one = wide(a[at])
                two = one + a[at + 1]
                three = two + a[at + 2]
                four = three + a[at + 3]
                y[at] = before + one
                y[at + 1] = before + two
                y[at + 2] = before + three
                y[at + 3] = before + four
                before = before + four
                at = at + 4
            for _ in range(n % 4):
                before = before + a[at]
                y[at] = before
                at = at + 1


@native
def running_slices_loop(
    first: int, last: int, a: Array, y: Array, sums: Doubles, n: int, width: int, pieces: int, backwards: int
) -> None:
    """The running sums of n slices, each of `width` numbers in `pieces` pieces, kept in `sums` on the way."""
    step = -width if backwards else width
    for piece in range(first, last):
        start = piece % pieces * COLUMNS
        own = piece // pieces * width + start
        at = piece // pieces * n * width + start + ((n - 1) * width if backwards else 0)
        for _ in range(n):
            for i in range(least(COLUMNS, width - start)):
                total = sums[own + i] + a[at + i]
                sums[own + i] = total
                y[at + i] = total
            at = at + step


def _sums_of_slices(a: np.ndarray, axis: int, backwards: bool) -> np.ndarray:
    """Add each slice across the axis to the one before it, all elements of a slice at once."""
    out = a.astype(np.int64 if a.dtype.kind in "biu" else WIDE.get(a.dtype.char, a.dtype), order="C")
    slices = list(np.moveaxis(out, axis, 0))
    if backwards:
        slices.reverse()
    before = slices[0]
    for slice_ in slices[1:]:
        before = np.add(before, slice_, slice_)
    return out.astype(a.dtype) if a.dtype.char in WIDE else out


cumsum_row = bind(
    multilinear(
        "cumsum", in_order(lengthwise(lambda a, axis: _running_sums(a, axis, False))),
        lambda g, axis: cumsum_back_row(g, axis),
        dtypes="equal", batch=lambda op, a, axis: op(a, axis + 1),
    )
)  # fmt: skip
cumsum_back_row = bind(
    multilinear(
        "cumsum_back", lengthwise(lambda a, axis: _running_sums(a, axis, True)),
        lambda g, axis: cumsum_row(g, axis),
        dtypes="equal", batch=lambda op, a, axis: op(a, axis + 1), grad_name="FlipBackward0",
    )
)  # fmt: skip


def _in_type(row: Any, input: Any, dim: int, dtype: Any) -> Any:
    """A running sum or product, computed in the dtype that was asked for."""
    if dtype is dtypes.bool_:
        raise refusal(NotImplementedError, f"\"{row.__name__}_out_cpu\" not implemented for 'Bool'")
    return as_type(row(as_type(input, dtype), axis_of(dim, input.ndim)), dtype)


@operation(samples=scan_samples, inplace=True, out="own")
def cumsum(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """Running sum along a dimension.

    >>> import pellucid as torch
    >>> torch.tensor([1, 2, 3]).cumsum(0)
    tensor([1, 3, 6])
    """
    return _in_type(cumsum_row, input, dim, dtype)


# --- products


def _cumprod_back(g: Any, a: Any, y: Any, axis: int) -> Any:
    """The product before an element, times the sum of g times the products after it."""
    if not a.ndim:
        return g
    return before(y, axis) * carried(g, ahead(a, 1, axis), axis)


def _cumprod_forward(tangents: Any, y: Any, inputs: Any, params: Any) -> Any:
    """t[j] = a[j] t[j - 1] + da[j] y[j - 1]: the same recurrence from the other end."""
    a, (axis,) = inputs[0], params
    if not a.ndim:
        return tangents[0]
    gained = flip_row(tangents[0] * before(y, axis), (axis,))
    return flip_row(carried(gained, flip_row(a, (axis,)), axis), (axis,))


cumprod_row = bind(
    general(
        "cumprod", in_order(lengthwise(lambda a, axis: _accumulated(multiply_accumulate, a, axis))), _cumprod_back,
        jvp=_cumprod_forward, dtypes="equal", batch=lambda op, a, axis: op(a, axis + 1),
    )
)  # fmt: skip


def others_along(a: Any, axis: int) -> Any:
    """For every element the product of all others along an axis: those before it times those after it."""
    after = flip_row(before(cumprod_row(flip_row(a, (axis,)), axis), axis), (axis,))
    return before(cumprod_row(a, axis), axis) * after


@operation(samples=scan_samples, inplace=True, out="own")
def cumprod(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """Running product along a dimension; the gradient is right where elements are zero.

    >>> import pellucid as torch
    >>> torch.tensor([1, 2, 3, 4]).cumprod(0)
    tensor([ 1,  2,  6, 24])
    """
    return _in_type(cumprod_row, input, dim, dtype)


# --- extremes


def _record_places(extreme: np.ufunc, beats: np.ufunc) -> Any:
    """Where the running extreme was met last; NaN beats everything."""

    def forward(a: np.ndarray, axis: int) -> np.ndarray:
        places = np.arange(a.shape[axis]).reshape(-1, *(1,) * (a.ndim - 1 - axis))
        met = beats(a, extreme.accumulate(a, axis)) | (a != a)
        return np.maximum.accumulate(np.where(met, places, 0), axis)

    return lengthwise(forward)


cummax_index_row = bind(
    constant("cummax_index", _record_places(np.maximum, np.greater_equal), 1, batch=lambda op, a, axis: op(a, axis + 1))
)
cummin_index_row = bind(
    constant("cummin_index", _record_places(np.minimum, np.less_equal), 1, batch=lambda op, a, axis: op(a, axis + 1))
)


cummax_row, cummin_row = taker("cummax"), taker("cummin")


def _record(input: Any, dim: int, name: str, index_row: Any, row: Any) -> tuple[Any, Any]:
    """The running extremes along a dimension, and where they are."""
    refuse(input, "c", f"\"{name}_cpu\" not implemented for '{{}}'", NotImplementedError)
    axis = axis_of(dim, input.ndim)
    index = index_row(bare(input), axis)
    return row(input, index, axis), index


@operation(samples=scan_samples)
def cummax(input: Any, dim: int) -> Any:
    """Running maximum along a dimension, and where it was met last.

    >>> import pellucid as torch
    >>> torch.tensor([1.0, 3.0, 2.0]).cummax(0).values
    tensor([1., 3., 3.])
    """
    return handed_out(return_types.cummax, input, *_record(input, dim, "cummax", cummax_index_row, cummax_row))


@operation(samples=scan_samples)
def cummin(input: Any, dim: int) -> Any:
    """Running minimum along a dimension, and where it was met last.

    >>> import pellucid as torch
    >>> torch.tensor([3.0, 1.0, 2.0]).cummin(0).indices
    tensor([0, 1, 1])
    """
    return handed_out(return_types.cummin, input, *_record(input, dim, "cummin", cummin_index_row, cummin_row))


# --- logarithms of sums of exponentials

# -inf becomes 0: what is subtracted from -inf may not be -inf itself, for that gives NaN.
grounded_row = bind(
    elementwise_row(
        "grounded", lambda a: np.where(a == -math.inf, a.dtype.type(0), a), lambda g, a: g * (a != -math.inf)
    )
)


def _capped(a: np.ndarray) -> np.ndarray:
    """inf becomes the largest number: once there, a running sum stays as it is, and inf - inf would be NaN."""
    return np.minimum(a, a.dtype.type(dtypes.finfo(dtypes.from_numpy_dtype(a.dtype)).max))


capped_row = bind(elementwise_row("capped", _capped, lambda g, a: g * (a != math.inf)))


def _share_kept(y: Any, axis: int) -> Any:
    """exp(y[j] - y[j + 1]), at most 1: which part of the next running sum was there before; 0 at the end."""
    y = capped_row(y)
    here, further = slice_row(y, part(axis, None, -1)), slice_row(y, part(axis, 1, None))
    return unslice_row(exp(here - grounded_row(further)), tuple(y.shape), part(axis, None, -1))


def _logcumsumexp_back(g: Any, a: Any, axis: int) -> Any:
    return _pulled_exponents(g, a, axis) if a.ndim else g


@in_double
def _pulled_exponents(g: Any, a: Any, axis: int) -> Any:
    """The running sums are worked out once more: what was handed out is rounded, and every share of it would be off."""
    y = logcumsumexp_row(a, axis)
    return exp(a - grounded_row(y)) * carried(g, _share_kept(y, axis), axis)


def _logcumsumexp_forward(tangents: Any, y: Any, inputs: Any, params: Any) -> Any:
    return _pushed_exponents(tangents[0], inputs[0], params[0]) if y.ndim else tangents[0]


@in_double
def _pushed_exponents(t: Any, a: Any, axis: int) -> Any:
    y = logcumsumexp_row(a, axis)
    gained = t * exp(a - grounded_row(y))
    share = ahead(flip_row(_share_kept(y, axis), (axis,)), 1, axis)
    return flip_row(carried(flip_row(gained, (axis,)), share, axis), (axis,))


def _logcumsumexp(a: np.ndarray, axis: int) -> np.ndarray:
    wide = WIDE.get(a.dtype.char, a.dtype)
    if a.dtype.kind != "c":
        return np.logaddexp.accumulate(a, axis, wide).astype(a.dtype, copy=False)
    y = np.array(np.moveaxis(a, axis, 0), wide)
    for i in range(1, len(y)):
        y[i] = logaddexp_of(y[i - 1], y[i])
    return np.moveaxis(y, 0, axis).astype(a.dtype, copy=False)


logcumsumexp_row = bind(
    general(
        "logcumsumexp", in_order(lengthwise(_logcumsumexp)), _logcumsumexp_back,
        jvp=_logcumsumexp_forward, dtypes="equal", batch=lambda op, a, axis: op(a, axis + 1),
    )
)  # fmt: skip


@operation(samples=scan_samples)
def logcumsumexp(input: Any, dim: int) -> Any:
    """Logarithm of the running sum of exponentials along a dimension, without overflow.

    >>> import pellucid as torch
    >>> torch.tensor([1000.0, 1000.0]).logcumsumexp(0)
    tensor([1000.0000, 1000.6932])
    """
    refuse(input, "biu", "\"logcumsumexp_out_cpu\" not implemented for '{}'", NotImplementedError)
    return logcumsumexp_row(input, axis_of(dim, input.ndim))


# --- differences and areas


@operation(
    samples=lambda draw: [
        call(draw(5)), call(draw(5), 2), call(draw(2, 3), dim=0), call(draw(2, 3), 1, -1), call(draw(2, 3), n=5),
        call(draw(4), prepend=draw(2)), call(draw(2, 3), append=draw(2, 1)), call(draw(1)), call(draw(0)),
        call(draw(2, 3, 4), 1, 1), call(draw(2, 0)),
    ]
)  # fmt: skip
def diff(input: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """The n-th difference of neighbours along a dimension.

    >>> import pellucid as torch
    >>> torch.tensor([1, 4, 9]).diff()
    tensor([3, 5])
    """
    if not input.ndim:
        raise refusal(RuntimeError, "diff expects input to be at least one-dimensional")
    if n < 0:
        raise refusal(RuntimeError, f"order must be non-negative but got {n}")
    axis = axis_of(dim, input.ndim)
    if n == 0:
        return clone(input)
    pieces = [piece for piece in (prepend, input, append) if piece is not None]
    whole = input if len(pieces) == 1 else cat(pieces, axis)
    for _ in range(min(n, whole.shape[axis])):
        after, first = slice_row(whole, part(axis, 1, None)), slice_row(whole, part(axis, None, -1))
        whole = after ^ first if whole.array.dtype.kind == "b" else after - first
    return whole


def _strips(y: Any, x: Any, dim: int) -> Any:
    """Twice the area of each strip between neighbours: both heights times the width (1 without x)."""
    axis = axis_of(dim, y.ndim)
    heights = slice_row(y, part(axis, 1, None)) + slice_row(y, part(axis, None, -1))
    if x is None:
        return heights
    width = diff(x, dim=dim if x.ndim == y.ndim else -1)
    if x.ndim == 1:
        width = width.reshape((-1,) + (1,) * (y.ndim - 1 - axis))
    return heights * width


@operation(
    samples=lambda draw: [
        call(draw(5)), call(draw(5), draw(5)), call(draw(2, 3)), call(draw(2, 3), dim=0), call(draw(2, 3), dx=0.5),
        call(draw(2, 3), draw(3)), call(draw(2, 3), draw(2), dim=0), call(draw(2, 3), draw(2, 3)),
        call(draw(1)), call(draw(2, 3, 2), dim=1),
    ],
    methods=(), aliases=("trapz",), unclaimed={"node_name": "PyTorch calls a product with a number MulBackward1 there"},
)  # fmt: skip
def trapezoid(y: Any, x: Any = None, *, dx: float = 1, dim: int = -1) -> Any:
    """The area under the points y along a dimension, by the trapezoidal rule.

    >>> import pellucid as torch
    >>> torch.trapezoid(torch.tensor([1.0, 2.0, 3.0]))
    tensor(4.)
    """
    total = _strips(y, x, dim).sum(dim)
    return total * (dx / 2) if x is None else total / 2


@operation(
    samples=lambda draw: [
        call(draw(5)), call(draw(5), draw(5)), call(draw(2, 3)), call(draw(2, 3), dim=0), call(draw(2, 3), dx=0.5),
        call(draw(2, 3), draw(3)), call(draw(2, 3), draw(2), dim=0), call(draw(2, 3), draw(2, 3)),
        call(draw(2, 3, 2), dim=1), call(draw(1)), call(draw(3, 2).mT, dx=2.0),
    ],
    methods=(),
)  # fmt: skip
def cumulative_trapezoid(y: Any, x: Any = None, *, dx: float = 1, dim: int = -1) -> Any:
    """The running area under the points y along a dimension.

    >>> import pellucid as torch
    >>> torch.cumulative_trapezoid(torch.tensor([1.0, 2.0, 3.0]))
    tensor([1.5000, 4.0000])
    """
    strips = _strips(y, x, dim)
    return cumsum(strips * (dx / 2), dim) if x is None else cumsum(strips, dim) / 2
