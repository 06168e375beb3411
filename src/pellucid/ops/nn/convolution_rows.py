"""The rows of convolution, of any number of dimensions: forward, with respect to the input, with respect to the weight.

Each is linear in both its inputs, and each one's gradients are the other two, so derivatives of any order come of
three kernels. All of them make columns (columns.py; over planes with moderate weights only along rows, shifted.py),
multiply matrices and keep nothing: backward makes the columns anew, which takes a third of the time of the product and
saves kernel-size times the memory of the input.

A kernel's images are shared among threads where every product is too small for the BLAS to do so by itself.
"""

import math
from cmath import isfinite
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from pellucid.core.primitive import add_up, general, multilinear
from pellucid.core.record import bind
from pellucid.ops.arguments import ALL, Row, Shape
from pellucid.ops.axes import permute_row
from pellucid.ops.expand import expand_row
from pellucid.ops.formats import in_format
from pellucid.ops.nn import convolution_loops, shifted
from pellucid.ops.nn.columns import CACHE, MOST, Piece, pieces
from pellucid.ops.nn.windows import Windows
from pellucid.ops.nn.workers import in_parts
from pellucid.ops.reduce import sum_row
from pellucid.ops.shape import reshape_row

HEAVY = 1 << 15  # elements of a weight that are better read once for many images than once for each


class Layout(NamedTuple):
    """How columns, results and weights are seen as matrices: one per image and group, or one per group.

    A large weight over few places (deep layers) is multiplied with the columns of several images side by side.
    """

    groups: int
    beside: bool
    cache: int

    def view(self, x: ndarray, rank: int) -> ndarray:
        """(images, rows, ..., *places) as (images, groups, rows, places) or as (groups, rows, images, places)."""
        rows = math.prod(x.shape[1 : x.ndim - rank]) // self.groups
        apart = x.reshape(len(x), self.groups, rows, math.prod(x.shape[x.ndim - rank :]))
        return np.moveaxis(apart, 0, 2) if self.beside else apart

    def matrices(self, x: ndarray, rank: int) -> ndarray:
        """The same as a stack of matrices; a copy if images are to stand side by side that do not lie so."""
        view = self.view(x, rank)
        return view.reshape(*view.shape[:2], view.shape[2] * view.shape[3]) if self.beside else view

    def multiply(self, first: ndarray, second: ndarray, out: ndarray, rank: int) -> None:
        """The product of two stacks of matrices, written to an array of (images, rows, ..., *places)."""
        product = np.multiply if first.shape[-1] == 1 else np.matmul  # numbers are slow as matrices of one element
        view = self.view(out, rank)
        if self.beside and not view.flags.c_contiguous:
            view[...] = product(first, second).reshape(view.shape)
        else:
            product(first, second, out=self.matrices(out, rank))


def _layout(windows: Windows, weight: Shape, groups: int, itemsize: int) -> Layout:
    """The layout for a weight (outputs, channels / groups, *kernel)."""
    elements = math.prod(weight) // groups
    beside = math.prod(windows.sizes) < 2 * weight[0] // groups and elements >= HEAVY
    return Layout(groups, beside, max(CACHE, min(MOST, 4 * elements * itemsize)) if beside else CACHE)


def _microseconds(windows: Windows, images: int, channels: int, outputs: int, groups: int) -> float:
    """About how long a kernel takes on one core; 0 where the BLAS has its own threads."""
    columns = channels * math.prod(windows.kernel) * math.prod(windows.sizes)
    products = columns // groups * (outputs // groups)
    return 0.0 if products >= shifted.SINGLE else images * (0.00027 * columns + 0.00003 * products * groups)


# --- the kernels


def convolve(a: ndarray, b: ndarray, windows: Windows, groups: int) -> ndarray:
    """(images, channels, *sizes) with a weight (outputs, channels / groups, *kernel)."""
    return _convolve(a, b, None, windows, groups)


def _convolve(a: ndarray, b: ndarray, bias: ndarray | None, windows: Windows, groups: int) -> ndarray:
    if convolution_loops.fit(windows, len(a), a.shape[1], len(b), groups, a.dtype):
        return convolution_loops.convolve(a, b, bias, windows, groups)
    a, rank = np.ascontiguousarray(a), windows.rank
    if shifted.fits(windows, a.shape[1], len(b), groups):
        return shifted.convolve(a, b, bias, windows, groups)
    y = np.empty((len(a), len(b), *windows.sizes), a.dtype)
    weight = b.reshape(groups, len(b) // groups, math.prod(b.shape[1:]))
    layout = _layout(windows, b.shape, groups, a.itemsize)

    def work(images: slice) -> None:
        for piece in pieces(windows, a.shape, images, a.dtype, layout.cache, layout.beside):
            columns = piece.steps.columns(a[piece.images, :, piece.elements])
            out = y[piece.images, :, piece.places]
            layout.multiply(weight, layout.matrices(columns, rank), out, rank)
            if bias is not None:
                out += bias.reshape(-1, *(1,) * rank)

    in_parts(work, len(a), _microseconds(windows, len(a), a.shape[1], len(b), groups))
    return y


def _transposed(a: ndarray, b: ndarray, windows: Windows, groups: int, sizes: Shape) -> ndarray:
    """The adjoint of `convolve` in its input, which has spatial `sizes`: each element of `a` adds a kernel."""
    channels = b.shape[1] * groups
    if _flips(windows, len(b), channels, sizes) and _is_finite(b):
        return convolve(a, _flipped(b, groups), _mirrored(windows, sizes), groups)
    if convolution_loops.fit(windows, len(a), channels, len(b), groups, a.dtype):
        return convolution_loops.transposed(a, b, windows, groups, sizes)
    a, rank = np.ascontiguousarray(a), windows.rank
    if shifted.fits(windows, channels, len(b), groups):
        return shifted.transposed(a, b, windows, groups, sizes)
    x = np.empty((len(a), channels, *sizes), a.dtype)
    weight = b.reshape(groups, len(b) // groups, math.prod(b.shape[1:])).swapaxes(1, 2)
    layout = _layout(windows, b.shape, groups, a.itemsize)

    def work(images: slice) -> None:
        for piece in pieces(windows, x.shape, images, a.dtype, layout.cache, layout.beside):
            g = layout.matrices(a[piece.images, :, piece.places], rank)
            columns = piece.steps.arrays(piece.images.stop - piece.images.start)[-1] if piece.steps.stages else None
            out = x[piece.images, :, piece.elements] if columns is None else columns
            layout.multiply(weight, g, out, rank)
            if columns is not None:
                _fold(piece, x)

    in_parts(work, len(a), 2 * _microseconds(windows, len(a), channels, len(b), groups))
    return x


def _fold(piece: Piece, x: ndarray) -> None:
    """Add the columns of a piece to the elements of x that they belong to."""
    if piece.whole:
        piece.steps.fold(x[piece.images])
        return
    out = x[piece.images, :, piece.elements]
    slab = np.empty(out.shape, x.dtype)
    piece.steps.fold(slab)
    if piece.places.start == 0:
        x[piece.images] = 0
    out += slab


def _flips(windows: Windows, outputs: int, channels: int, sizes: Shape) -> bool:
    """Whether to convolve with the mirrored kernel: the columns of the result would not be much smaller to add up."""
    near = outputs * math.prod(sizes) <= 2 * channels * math.prod(windows.sizes)
    return near and all(stride == 1 for stride in windows.stride)


def _is_finite(b: ndarray) -> bool:
    """Whether a weight may be multiplied by zeros around the elements, which only the mirrored convolution has."""
    return isfinite(np.vdot(b, b))


def _flipped(b: ndarray, groups: int) -> ndarray:
    """The weight with inputs and outputs exchanged and every kernel mirrored; a copy, for the BLAS reads no mirrors."""
    mirrored = b[(ALL, ALL, *(slice(None, None, -1),) * (b.ndim - 2))]
    grouped = mirrored.reshape(groups, len(b) // groups, *b.shape[1:]).swapaxes(1, 2)
    return np.ascontiguousarray(grouped).reshape(groups * b.shape[1], len(b) // groups, *b.shape[2:])


def _mirrored(windows: Windows, sizes: Shape) -> Windows:
    """The windows, of stride 1, seen from the elements: which places see an element."""
    reach = zip(windows.kernel, windows.padding, windows.dilation, strict=True)
    return windows._replace(padding=tuple((k - 1) * d - p for k, p, d in reach), sizes=sizes)


def _with_weight(a: ndarray, b: ndarray, windows: Windows, groups: int) -> ndarray:
    """The adjoint of `convolve` in its weight: what `b`, the size of the result, has in common with the columns."""
    if convolution_loops.fit(windows, len(a), a.shape[1], b.shape[1], groups, a.dtype):
        return convolution_loops.with_weight(a, b, windows, groups)
    a, b, rank = np.ascontiguousarray(a), np.ascontiguousarray(b), windows.rank
    if shifted.fits(windows, a.shape[1], b.shape[1], groups):
        return shifted.with_weight(a, b, windows, groups)
    shape = (b.shape[1], a.shape[1] // groups, *windows.kernel)
    layout = _layout(windows, shape, groups, a.itemsize)

    def work(images: slice) -> ndarray:
        total = np.zeros(shape, a.dtype)
        flat = total.reshape(groups, shape[0] // groups, math.prod(shape[1:]))
        for piece in pieces(windows, a.shape, images, a.dtype, layout.cache, layout.beside):
            columns = piece.steps.columns(a[piece.images, :, piece.elements])
            g = layout.matrices(b[piece.images, :, piece.places], rank)
            product = np.matmul(g, layout.matrices(columns, rank).swapaxes(-1, -2))
            flat += product if layout.beside else np.add.reduce(product, 0)
        return total

    sums = in_parts(work, len(a), _microseconds(windows, len(a), a.shape[1], b.shape[1], groups))
    return add_up(sums)


# --- the rows


def _as_groups(a: Any) -> Any:
    """(batch, images, channels, ...) to (images, batch * channels, ...): a batch of convolutions is one of groups."""
    swapped = permute_row(a, (1, 0, *range(2, a.ndim)))
    return reshape_row(swapped, (a.shape[1], a.shape[0] * a.shape[2], *a.shape[3:]))


def _from_groups(y: Any, batch: int) -> Any:
    """The inverse of `_as_groups`."""
    apart = reshape_row(y, (y.shape[0], batch, y.shape[1] // batch, *y.shape[2:]))
    return permute_row(apart, (1, 0, *range(2, apart.ndim)))


def _joined(a: Any) -> Any:
    """The first two axes as one."""
    return reshape_row(a, (a.shape[0] * a.shape[1], *a.shape[2:]))


def _split(y: Any, batch: int) -> Any:
    """The inverse of `_joined`."""
    return reshape_row(y, (batch, y.shape[0] // batch, *y.shape[1:]))


def _batch(op: Row, a: Any, b: Any, windows: Windows, groups: int, *sizes: Shape) -> Any:
    """vmap of a convolution: with one weight for all the batch goes to the images, else to the groups."""
    batch = a.shape[0]
    if isinstance(b, ndarray) and b.strides[0] == 0:
        return _split(op(_joined(a), b[0], windows, groups, *sizes), batch)
    return _from_groups(op(_as_groups(a), _joined(b), windows, groups * batch, *sizes), batch)


def _batch_weight(op: Row, a: Any, b: Any, windows: Windows, groups: int) -> Any:
    return _split(op(_as_groups(a), _as_groups(b), windows, groups * a.shape[0]), a.shape[0])


convolution_row = bind(
    multilinear(
        "convolution", in_format(convolve, 2),
        lambda g, b, a_shape, windows, groups: transposed_row(g, b, windows, groups, a_shape[2:]),
        lambda g, a, windows, groups: weight_row(a, g, windows, groups),
        dtypes="equal", batch=_batch,
    )
)  # fmt: skip

transposed_row = bind(
    multilinear(
        "convolution_transposed", in_format(_transposed, 2),
        lambda g, b, windows, groups, sizes: convolution_row(g, b, windows, groups),
        lambda g, a, windows, groups, sizes: weight_row(g, a, windows, groups),
        dtypes="equal", batch=_batch, grad_name="ConvolutionBackward0",
    )
)  # fmt: skip

weight_row = bind(
    multilinear(
        "convolution_weight", _with_weight,
        lambda g, b, a_shape, windows, groups: transposed_row(b, g, windows, groups, a_shape[2:]),
        lambda g, a, windows, groups: convolution_row(a, g, windows, groups),
        dtypes="equal", batch=_batch_weight, grad_name="ConvolutionBackwardBackward0",
    )
)  # fmt: skip


# --- the rows with a bias: one number per channel of the result, added in the kernel


def _bias_gradient(g: Any) -> Any:
    return sum_row(g, (0, *range(2, g.ndim)), False)


def _with_bias(name: str, forward: Any, row: Row, *rules: Any) -> Row:
    """The row (a, b, bias, *params) of a row (a, b, *params)."""

    def jvp(tangents: Sequence[Any], y: Any, inputs: Sequence[Any], params: tuple[Any, ...]) -> Any:
        terms = [None if tangents[0] is None else row(tangents[0], inputs[1], *params)]
        terms.append(None if tangents[1] is None else row(inputs[0], tangents[1], *params))
        terms.append(None if tangents[2] is None else expand_row(_beside(tangents[2], y.ndim), tuple(y.shape)))
        return add_up(term for term in terms if term is not None)

    def batch(op: Row, a: Any, b: Any, c: Any, *params: Any) -> Any:
        return _batch(row, a, b, *params) + reshape_row(c, (c.shape[0], 1, c.shape[1], *(1,) * (a.ndim - 3)))

    formatted = in_format(forward, 2)
    return bind(
        general(name, formatted, *rules, jvp=jvp, dtypes="equal", batch=batch, grad_name="ConvolutionBackward0")
    )


def _beside(bias: Any, rank: int) -> Any:
    """A bias with axes of size 1, so that it broadcasts over a result of this rank."""
    return reshape_row(bias, (bias.shape[0], *(1,) * (rank - 2)))


def _transposed_with_bias(
    a: ndarray, b: ndarray, c: ndarray, windows: Windows, groups: int, sizes: Shape
) -> ndarray:
    y = _transposed(a, b, windows, groups, sizes)
    y += _beside(c, y.ndim)
    return y


convolution_bias_row = _with_bias(
    "convolution_bias", _convolve, convolution_row,
    lambda g, b, a_shape, windows, groups: transposed_row(g, b, windows, groups, a_shape[2:]),
    lambda g, a, windows, groups: weight_row(a, g, windows, groups),
    lambda g, windows, groups: _bias_gradient(g),
)  # fmt: skip

transposed_bias_row = _with_bias(
    "convolution_transposed_bias", _transposed_with_bias, transposed_row,
    lambda g, b, windows, groups, sizes: convolution_row(g, b, windows, groups),
    lambda g, a, windows, groups, sizes: weight_row(g, a, windows, groups),
    lambda g, windows, groups, sizes: _bias_gradient(g),
)  # fmt: skip
