"""Functions of square matrices: the exponential and whole powers.

The derivative of exp at A in the direction T stands in the exponential of a larger matrix: exp [[A, T], [0, A]] has
it in its upper right corner. So the row differentiates by itself, to any order.
"""

from typing import Any

import numpy as np
import scipy.linalg

from pellucid.core.blas import one_thread
from pellucid.core.primitive import general
from pellucid.core.record import bind
from pellucid.ops.convert import clone_row
from pellucid.ops.fill import zero_row
from pellucid.ops.join import cat_row
from pellucid.ops.linalg.inverse import inv
from pellucid.ops.linalg.matrices import expect_floating, expect_square, identity_row, invertible
from pellucid.ops.matmul import matmul, swap
from pellucid.ops.operation import COMPOSED, Draw, Sample, call, operation
from pellucid.ops.shape import zeros_like_row
from pellucid.ops.slicing import slice_row


@one_thread
def _matrix_exp(a: np.ndarray) -> np.ndarray:
    return scipy.linalg.expm(a).astype(a.dtype, copy=False) if a.size else a.copy()


def _derivative(a: Any, t: Any) -> Any:
    """How exp(a) moves when `a` moves by t."""
    size, rows, columns = a.shape[-1], a.ndim - 2, a.ndim - 1
    below = cat_row((zeros_like_row(a), a), columns)
    whole = matrix_exp_row(cat_row((cat_row((a, t), columns), below), rows))
    return slice_row(whole, (..., slice(0, size), slice(size, 2 * size)))


matrix_exp_row = bind(
    general(
        "linalg_matrix_exp", _matrix_exp, lambda g, a: _derivative(swap(a), g),
        jvp=lambda tangents, y, inputs, params: _derivative(inputs[0], tangents[0]),
        dtypes="equal", batch=lambda op, a: op(a),
    )
)  # fmt: skip


def _square_samples(draw: Draw) -> list[Sample]:
    shapes = [(3, 3), (2, 2, 2), (1, 1), (0, 0), (0, 3, 3), (2, 1, 2, 2)]
    return [*(call(draw(*shape)) for shape in shapes), call(draw.complex(2, 2, 2))]


@operation(samples=_square_samples, module="torch.linalg", aliases=("torch.matrix_exp",), methods=("matrix_exp",))
def matrix_exp(input: Any) -> Any:
    """The exponential of every matrix: I + A + A²/2 + A³/6 + ...

    >>> import pellucid as torch
    >>> torch.linalg.matrix_exp(torch.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    expect_square("linalg.matrix_exp", input)
    expect_floating("linalg.matrix_exp", input)
    return matrix_exp_row(input)


def _power_samples(draw: Draw) -> list[Sample]:
    return [
        call(draw(3, 3), 2), call(draw(2, 2, 2), 3), call(draw(2, 2), 0), call(draw(2, 2), 1), call(draw(2, 2), 7),
        call(invertible(draw, 3, 3), -1), call(invertible(draw, 2, 2, 2), -2), call(draw(0, 0), 3),
        call(draw.complex(2, 2), 4),
    ]  # fmt: skip


@operation(
    samples=_power_samples, module="torch.linalg", aliases=("torch.matrix_power",), methods=("matrix_power",),
    unclaimed=COMPOSED,
)  # fmt: skip
def matrix_power(input: Any, n: int) -> Any:
    """Every matrix multiplied n times with itself; of a negative n its inverse.

    >>> import pellucid as torch
    >>> torch.linalg.matrix_power(torch.tensor([[1, 1], [0, 1]]), 5)
    tensor([[1, 5],
            [0, 1]])
    """
    expect_square("linalg.matrix_power", input)
    if n == 0:
        return zero_row(input) + identity_row(input)
    if n == 1:
        return clone_row(input, "K")
    return _power(inv(input) if n < 0 else input, abs(n))


def _power(base: Any, n: int) -> Any:
    """By squaring: as many products as n has binary digits, and one more for every 1 among them."""
    result = None
    while n:
        n, odd = divmod(n, 2)
        if odd:
            result = base if result is None else matmul(result, base)
        if n:
            base = matmul(base, base)
    return result
