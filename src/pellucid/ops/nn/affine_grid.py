"""The grids that grid_sample needs to turn, stretch and move a picture: affine maps of its coordinates."""

from typing import Any

import numpy as np
from numpy import ndarray

from pellucid import dtypes
from pellucid.core.tensor import bearing
from pellucid.ops.arguments import Shape, expect
from pellucid.ops.construct import as_tensor
from pellucid.ops.matmul import matmul
from pellucid.ops.operation import COMPOSED, call, operation
from pellucid.ops.ranges import linspace
from pellucid.ops.shape import reshape


def _line(steps: int, align_corners: bool, dtype: np.dtype) -> ndarray:
    """From -1 to 1 in steps; unless the corners are to coincide, the middles of that many equal parts."""
    if steps <= 1:
        return np.zeros(steps, dtype)
    # PyTorch's steps, to the last bit: an untouched picture sits on corners of the interpolation, and which slope a
    # place there has hangs on that bit.
    line = linspace(-1, 1, steps, dtype=dtypes.from_numpy_dtype(dtype)).array
    return line if align_corners else line * dtype.type(steps - 1) / dtype.type(steps)


def _generated(theta: Any, size: Shape, align_corners: bool) -> Any:
    rank, sizes = len(size) - 2, tuple(size[2:])
    dtype = np.dtype(np.float64 if theta.dtype.itemsize == 8 else np.float32)
    axes = np.meshgrid(*(_line(n, align_corners, dtype) for n in sizes), indexing="ij")
    base = np.stack([*reversed(axes), np.ones(sizes, dtype)], -1).reshape(-1, rank + 1)
    grid = matmul(as_tensor(base, dtype=theta.dtype), theta.mT)
    return bearing("AffineGridGeneratorBackward0", reshape(grid, (size[0], *sizes, rank)))


@operation(
    samples=lambda draw: [
        call(draw(1, 2, 3), [1, 1, 2, 3], False), call(draw(2, 2, 3), [2, 1, 3, 2], True),
        call(draw(1, 3, 4), [1, 1, 2, 2, 3], False), call(draw(2, 3, 4), [2, 1, 2, 3, 2], True),
    ],
    methods=(), unclaimed=COMPOSED,
)  # fmt: skip
def affine_grid_generator(theta: Any, size: Any, align_corners: bool) -> Any:
    """The places of a grid under affine maps: what affine_grid computes once its arguments are checked.

    >>> import pellucid as torch
    >>> torch.affine_grid_generator(torch.eye(2, 3)[None], [1, 1, 1, 2], True)
    tensor([[[[-1.,  0.],
              [ 1.,  0.]]]])
    """
    expect(len(size) in (4, 5), "AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs.")
    return _generated(theta, tuple(size), align_corners)


@operation(
    samples=lambda draw: [
        call(draw(1, 2, 3), (1, 1, 2, 3), False), call(draw(2, 2, 3), [2, 1, 3, 2], True),
        call(draw(1, 3, 4), (1, 1, 2, 2, 3), align_corners=False),
    ],
    module="torch.nn.functional", unclaimed=COMPOSED,
)  # fmt: skip
def affine_grid(theta: Any, size: Any, align_corners: bool | None = None) -> Any:
    """The grid that grid_sample needs to turn, stretch and move a picture by affine maps theta (N, 2, 3) or (N, 3, 4).

    >>> import pellucid as torch
    >>> torch.nn.functional.affine_grid(torch.eye(2, 3)[None], (1, 1, 1, 2), align_corners=False)
    tensor([[[[-0.5000,  0.0000],
              [ 0.5000,  0.0000]]]])
    """
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    if len(size) not in (4, 5):
        what = "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively"
        raise NotImplementedError(f"{what}. Got size {size}.")
    rank = len(size) - 2
    if theta.ndim != 3 or tuple(theta.shape[1:]) != (rank, rank + 1):
        what = f"Expected a batch of {rank}D affine matrices of shape Nx{rank}x{rank + 1} for size {size}"
        raise ValueError(f"{what}. Got {theta.shape}.")
    if not (align_corners and min(size[2:]) == 1) and min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    return affine_grid_generator(theta, size, bool(align_corners))
