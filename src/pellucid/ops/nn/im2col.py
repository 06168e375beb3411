"""unfold and fold: the blocks that a window cuts out of images, as columns, and the images that columns add up to.

Each is the other's adjoint; the work is done by columns.py, as for convolution.
"""

import math
from typing import Any

import numpy as np
from numpy import ndarray

from pellucid.core.attention import HALVES
from pellucid.core.primitive import multilinear
from pellucid.core.record import bind
from pellucid.ops.arguments import Row, Shape, as_int, expect, name_of, refusal
from pellucid.ops.nn.columns import Steps
from pellucid.ops.nn.windows import Windows
from pellucid.ops.operation import call, operation
from pellucid.ops.shape import reshape_row

# --- the rows: (images, channels, height, width) and (images, channels * kernel, places)


def _unfold(a: ndarray, windows: Windows) -> ndarray:
    columns = Steps(windows, a.shape, a.dtype).columns(a)
    flat = columns.reshape(len(a), a.shape[1] * math.prod(windows.kernel), math.prod(windows.sizes))
    return np.array(flat) if np.may_share_memory(flat, a) else flat


def _fold(a: ndarray, windows: Windows, sizes: Shape) -> ndarray:
    """Add the columns up, halves in float32."""
    wide = np.dtype(np.float32) if a.dtype in HALVES else a.dtype
    out = np.empty((len(a), a.shape[1] // math.prod(windows.kernel), *sizes), wide)
    steps = Steps(windows, out.shape, wide)
    columns = steps.arrays(len(a))[-1] if steps.stages else out
    columns[...] = a.reshape(columns.shape)
    if steps.stages:
        steps.fold(out)
    return out.astype(a.dtype, copy=False)


def _batch(op: Row, a: Any, windows: Windows, *sizes: Shape) -> Any:
    y = op(reshape_row(a, (a.shape[0] * a.shape[1], *a.shape[2:])), windows, *sizes)
    return reshape_row(y, (a.shape[0], a.shape[1], *y.shape[1:]))


unfold_row = bind(
    multilinear(
        "im2col", _unfold, lambda g, a_shape, windows: fold_row(g, windows, a_shape[2:]),
        batch=_batch, grad_name="Im2ColBackward0",
    )
)  # fmt: skip
fold_row = bind(
    multilinear(
        "col2im", _fold, lambda g, windows, sizes: unfold_row(g, windows), batch=_batch, grad_name="Col2ImBackward0",
    )
)  # fmt: skip


# --- what users call


def _pair(what: str, value: Any, least: int) -> Shape:
    given = tuple(map(as_int, value)) if isinstance(value, (tuple, list)) else (as_int(value),) * 2
    expect(len(given) == 2, f"It is expected {what} equals to 2, but got size {len(given)}")
    limit = "greater than zero" if least else "non-negative"
    expect(min(given) >= least, f"{what.replace('_', ' ')} should be {limit}, but got {given}")
    return given


def _windows(sizes: Shape, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Windows:
    kernel, dilations = _pair("kernel_size", kernel_size, 1), _pair("dilation", dilation, 1)
    paddings, strides = _pair("padding", padding, 0), _pair("stride", stride, 1)
    columns = zip(sizes, kernel, strides, paddings, dilations, strict=True)
    counts = tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in columns)
    return Windows(kernel, strides, paddings, dilations, counts)


def _check_dtype(name: str, input: Any) -> None:
    if input.array.dtype.kind in "iu":
        raise refusal(NotImplementedError, f"\"{name}\" not implemented for '{name_of(input)}'", try_="x.float()")


@operation(
    module="torch.nn.functional",
    samples=lambda draw: [
        call(draw(2, 3, 4, 5), 2), call(draw(2, 4, 4), (3, 2), padding=1), call(draw(1, 2, 5, 4), 2, 2, 1, 2),
        call(draw(1, 1, 4, 4), (2, 3), dilation=(2, 1), padding=(0, 1), stride=(1, 2)), call(draw(2, 2, 3, 3), 1),
        call(draw(0, 2, 3, 3), 2), call(draw.complex(1, 2, 3, 3), 2), call(draw(1, 2, 3, 4), (3, 4)),
    ],
)  # fmt: skip
def unfold(input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """The blocks that a sliding window sees, as columns: (batch, channels * kernel, number of places).

    >>> import pellucid as torch
    >>> torch.nn.functional.unfold(torch.arange(6.0).reshape(1, 1, 2, 3), (2, 2))
    tensor([[[0., 1.],
             [1., 2.],
             [3., 4.],
             [4., 5.]]])
    """
    if input.ndim < 3:
        raise refusal(IndexError, f"unfold: Expected 3D or 4D (batch mode) tensor, but got {list(input.shape)}")
    shape = tuple(input.shape)
    fits = input.ndim in (3, 4) and 0 not in shape[-3:]
    what = "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input"
    expect(fits, f"{what}, but got: {list(shape)}")
    _check_dtype("im2col_out_cpu", input)
    windows = _windows(shape[-2:], kernel_size, dilation, padding, stride)
    if min(windows.sizes) < 1:
        raise refusal(
            RuntimeError,
            f"Given input with spatial size {shape[-2:]}, kernel_size={windows.kernel}, dilation={windows.dilation}, "
            f"padding={windows.padding}, calculated shape of the array of sliding blocks as {windows.sizes}, but its "
            "components must be at least one.",
        )
    if input.ndim == 4:
        return unfold_row(input, windows)
    columns = unfold_row(reshape_row(input, (1, *shape)), windows)
    return reshape_row(columns, tuple(columns.shape[1:]))


@operation(
    module="torch.nn.functional",
    samples=lambda draw: [
        call(draw(2, 12, 12), (4, 5), 2), call(draw(6, 12), 3, (3, 2), padding=1),
        call(draw(1, 8, 6), (5, 4), 2, 2, 1, 2),
        call(draw(1, 6, 4), (4, 4), (2, 3), dilation=(2, 1), padding=(0, 1), stride=(1, 2)), call(draw(2, 2, 9), 3, 1),
        call(draw(0, 4, 4), 3, 2), call(draw.complex(1, 4, 4), 3, 2), call(draw(1, 12, 1), (3, 4), (3, 4)),
    ],
)  # fmt: skip
def fold(
    input: Any, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Any:
    """Columns of blocks added up to images of a size, each block where `unfold` would take it from.

    >>> import pellucid as torch
    >>> torch.nn.functional.fold(torch.ones(1, 4, 2), (2, 3), (2, 2))
    tensor([[[[1., 2., 1.],
              [1., 2., 1.]]]])
    """
    shape = tuple(input.shape)
    fits = input.ndim in (2, 3) and 0 not in shape[-2:]
    what = "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions"
    expect(fits, f"{what}, but got: {list(shape)}")
    _check_dtype("col2im_out_cpu", input)
    sizes = _pair("output_size", output_size, 0)
    windows = _windows(sizes, kernel_size, dilation, padding, stride)
    kernel = math.prod(windows.kernel)
    expect(
        shape[-2] % kernel == 0,
        "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
        f"input.size(1)={shape[-2]} and kernel_size={windows.kernel}.",
    )
    height, width = windows.sizes
    if min(sizes) < 1 or min(windows.sizes) < 1 or height * width != shape[-1]:
        raise refusal(
            RuntimeError,
            f"Given output_size={sizes}, kernel_size={windows.kernel}, dilation={windows.dilation}, "
            f"padding={windows.padding}, stride={windows.stride}, expected size of input's dimension 2 to match the "
            f"calculated number of sliding blocks {height} * {width} = {height * width}, but got {shape[-1]}.",
        )
    if input.ndim == 3:
        return fold_row(input, windows, sizes)
    images = fold_row(reshape_row(input, (1, *shape)), windows, sizes)
    return reshape_row(images, tuple(images.shape[1:]))
