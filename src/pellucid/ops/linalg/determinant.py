"""Determinants: det, slogdet, logdet.

The derivative of det A is the matrix of its cofactors, det A · A⁻ᵀ. That is a polynomial of A's elements: it exists for
singular matrices too, where A⁻¹ does not. There a singular value decomposition A = U S Vᴴ gives it, because the
cofactors of a product are the product of the cofactors, and those of a diagonal matrix are products of all diagonal
elements but one. The second derivative needs the products of all but two, in the same way.
"""

import math
from typing import Any

import numpy as np

from pellucid import return_types
from pellucid.core.primitive import add_up, general
from pellucid.core.record import bind
from pellucid.ops.complex_numbers import imag_row, real_row
from pellucid.ops.elementwise import log
from pellucid.ops.linalg.inverse import inv_ex_row
from pellucid.ops.linalg.matrices import expect_factorable, invertible
from pellucid.ops.matmul import swap
from pellucid.ops.operation import COMPOSED, Draw, Sample, call, operation
from pellucid.ops.reduce import sum_row
from pellucid.ops.select import kind_of, where
from pellucid.ops.shape import reshape_row, zeros_like_row


def _each(number: Any) -> Any:
    """One number per matrix, so shaped that it multiplies the matrix."""
    return reshape_row(number, (*number.shape, 1, 1))


def _inner(a: Any, b: Any) -> Any:
    """The sum of the products of the elements of two matrices."""
    return sum_row(a * b, (a.ndim - 2, a.ndim - 1), False)


# --- cofactors, and how they move


def _cofactors(a: np.ndarray) -> np.ndarray:
    """det and inverse come of the same LU factors, so their product is exact even where both are extreme."""
    determinant = np.asarray(np.linalg.det(a))
    singular = determinant == 0
    if not singular.any():
        return determinant[..., None, None] * np.linalg.inv(a).swapaxes(-1, -2)
    y = np.empty_like(a)
    regular = ~singular
    y[regular] = determinant[regular][:, None, None] * np.linalg.inv(a[regular]).swapaxes(-1, -2)
    u, s, vh, sign = _decomposed(a[singular])
    y[singular] = sign * (u * _but_one(s)[..., None, :]) @ vh
    return y


def _decomposed(a: np.ndarray) -> tuple[np.ndarray, ...]:
    """Conjugates of U and Vᴴ, the singular values, and det U · det Vᴴ."""
    u, s, vh = np.linalg.svd(a)
    sign = np.linalg.det(u) * np.linalg.det(vh)
    return u.conj(), s, vh.conj(), np.asarray(sign)[..., None, None]


def _before(s: np.ndarray) -> np.ndarray:
    """The products of all elements before each one."""
    return np.concatenate((np.ones_like(s[..., :1]), np.multiply.accumulate(s, -1)[..., :-1]), -1)


def _after(s: np.ndarray) -> np.ndarray:
    return _before(s[..., ::-1])[..., ::-1]


def _but_one(s: np.ndarray) -> np.ndarray:
    """The products of all elements but one."""
    return _before(s) * _after(s)


def _but_two(s: np.ndarray) -> np.ndarray:
    """The products of all elements but i and j, at (i, j); zeros on the diagonal."""
    n = s.shape[-1]
    before, after = _before(s), _after(s)
    between, y = np.ones_like(s), np.zeros((*s.shape, n), s.dtype)
    for j in range(1, n):
        between[..., : j - 1] *= s[..., j - 1 : j]
        y[..., :j, j] = before[..., :j] * between[..., :j] * after[..., j : j + 1]
    return y + y.swapaxes(-1, -2)


def _moved_cofactors(t: np.ndarray, a: np.ndarray) -> np.ndarray:
    """How the cofactors move when `a` moves by t; of a diagonal matrix the second derivative is known (`_but_two`)."""
    if not a.size:
        return np.zeros_like(a)
    u, s, vh, sign = _decomposed(a)
    turned = u.swapaxes(-1, -2) @ t @ vh.swapaxes(-1, -2)
    products = _but_two(s)
    y = -products * turned.swapaxes(-1, -2)
    diagonal = np.einsum("...ii->...i", y)
    diagonal += np.einsum("...ij,...jj->...i", products, turned)
    return sign * (u @ y @ vh)


def _moved_twice(t: Any, u: Any, a: Any) -> Any:
    """The third derivative of det A in two directions, as a matrix; here A must have an inverse M."""
    m = swap(inv_ex_row(a, None)[0])
    along_t, along_u = m @ swap(t) @ m, m @ swap(u) @ m
    of_t, of_u, of_both = (_each(_inner(*pair)) for pair in ((t, m), (u, m), (along_t, u)))
    turns = along_t @ swap(u) @ m + along_u @ swap(t) @ m
    return _each(det_row(a)) * ((of_t * of_u - of_both) * m - of_u * along_t - of_t * along_u + turns)


cofactors_row = bind(
    general(
        "cofactors", _cofactors, lambda g, a: moved_cofactors_row(g, a),
        jvp=lambda tangents, y, inputs, params: moved_cofactors_row(tangents[0], inputs[0]),
        dtypes="equal", batch=lambda op, a: op(a),
    )
)  # fmt: skip


def _moved_cofactors_jvp(tangents: Any, y: Any, inputs: Any, params: Any) -> Any:
    (t, u), (direction, a) = tangents, inputs
    return add_up(
        [
            *([] if t is None else [moved_cofactors_row(t, a)]),
            *([] if u is None else [_moved_twice(direction, u, a)]),
        ]
    )


# The second derivative is symmetric: the same row pulls a gradient back and pushes a tangent forward.
moved_cofactors_row = bind(
    general(
        "moved_cofactors", _moved_cofactors,
        lambda g, b: moved_cofactors_row(g, b), lambda g, a, b: _moved_twice(a, g, b),
        jvp=_moved_cofactors_jvp, dtypes="equal", batch=lambda op, a, b: op(a, b),
    )
)  # fmt: skip

# --- det

det_row = bind(
    general(
        "linalg_det", np.linalg.det, lambda g, a: _each(g) * cofactors_row(a),
        jvp=lambda tangents, y, inputs, params: _inner(tangents[0], cofactors_row(inputs[0])),
        dtypes="equal", batch=lambda op, a: op(a),
    )
)  # fmt: skip


def _square_samples(draw: Draw) -> list[Sample]:
    shapes = [(3, 3), (2, 2, 2), (1, 1), (0, 0), (0, 3, 3), (2, 1, 4, 4)]
    return [*(call(invertible(draw, *shape)) for shape in shapes), call(invertible(draw, 2, 3, 3, complex=True))]


@operation(samples=lambda draw: [*_square_samples(draw), call(draw(3, 3))], module="torch.linalg")
def det(A: Any) -> Any:
    """The determinant of every matrix of a batch.

    >>> import pellucid as torch
    >>> torch.linalg.det(torch.tensor([[2.0, 1.0], [0.0, 3.0]]))
    tensor(6.)
    """
    expect_factorable("linalg.det", A)
    return det_row(A)


@operation(samples=_square_samples, name="det")
def torch_det(input: Any) -> Any:
    """The determinant of every matrix of a batch: `linalg.det`.

    >>> import pellucid as torch
    >>> torch.eye(3).det()
    tensor(1.)
    """
    return det(input)


# --- slogdet: the sign (a direction, for complex numbers) and the logarithm of the size


def _slogdet(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    sign, logarithm = np.linalg.slogdet(a)
    return sign, logarithm


def _slogdet_back(g: Any, a: Any, y: Any) -> Any:
    """log det A moves by the trace of A⁻¹ t, whose real part moves the size and whose imaginary part turns the sign."""
    sign, size = g
    weight = zeros_like_row(y[1]) if size is None else size
    if sign is not None and kind_of(a) == "c":
        weight = weight + imag_row(sign * y[0]) * 1j
    return (_each(weight) * inv_ex_row(swap(a), None)[0],)


def _slogdet_jvp(tangents: Any, y: Any, inputs: Any, params: Any) -> Any:
    moved = _inner(tangents[0], swap(inv_ex_row(inputs[0], None)[0]))
    if kind_of(moved) != "c":
        return zeros_like_row(y[0]), moved
    return y[0] * (imag_row(moved) * 1j), real_row(moved)


slogdet_row = bind(
    general(
        "linalg_slogdet", _slogdet, None, pullback=_slogdet_back, jvp=_slogdet_jvp,
        outputs=2, dtypes="equal", batch=lambda op, a: op(a),
    )
)  # fmt: skip


@operation(samples=_square_samples, module="torch.linalg")
def slogdet(A: Any) -> Any:
    """The sign of every determinant and the logarithm of its size, which do not overflow where det does.

    >>> import pellucid as torch
    >>> torch.linalg.slogdet(-1e200 * torch.eye(3, dtype=torch.float64)).logabsdet
    tensor(1381.5511, dtype=torch.float64)
    """
    expect_factorable("linalg.slogdet", A)
    return return_types.linalg_slogdet(*slogdet_row(A))


@operation(samples=_square_samples, name="slogdet")
def torch_slogdet(input: Any) -> Any:
    """The sign of every determinant and the logarithm of its size: `linalg.slogdet`.

    >>> import pellucid as torch
    >>> torch.slogdet(-torch.eye(3)).sign
    tensor(-1.)
    """
    return return_types.slogdet(*slogdet(input))


@operation(samples=_square_samples, unclaimed=COMPOSED)
def logdet(input: Any) -> Any:
    """The logarithm of every determinant; NaN where it is negative, -inf where it is 0.

    >>> import pellucid as torch
    >>> torch.logdet(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    tensor(0.)
    """
    expect_factorable("logdet", input)
    sign, size = slogdet_row(input)
    return log(sign) + size if kind_of(input) == "c" else where(sign == -1, math.nan, size)
