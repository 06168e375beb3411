"""Norms: how long a vector is. One row serves every order p; at the zero vector the gradient is zero."""

import math
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core.large import added_up
from pellucid.core.primitive import general
from pellucid.core.record import bind
from pellucid.ops.arguments import is_floating, name_of, number, refusal, shifted
from pellucid.ops.compare import sign
from pellucid.ops.complex_numbers import abs
from pellucid.ops.convert import as_type
from pellucid.ops.extremes import shares_row
from pellucid.ops.formats import in_order
from pellucid.ops.operation import Draw, Sample, call, operation
from pellucid.ops.reduce import back, nonempty_samples, normal, sum_row
from pellucid.ops.shape import zeros_like_row


@in_order
def _norm(a: np.ndarray, p: float, axes: tuple[int, ...], keepdim: bool) -> Any:
    if p == 2:
        return np.sqrt(added_up(a * a, axes, keepdim))
    if p == 0:
        return np.add.reduce(a != 0, axes, None, None, keepdim).astype(a.dtype)
    if p == math.inf:
        return np.maximum.reduce(np.abs(a), axes, None, None, keepdim)
    if p == -math.inf:
        return np.minimum.reduce(np.abs(a), axes, None, None, keepdim)
    if p == 1:
        return added_up(np.abs(a), axes, keepdim)
    return added_up(np.abs(a) ** p, axes, keepdim) ** (1 / p)


def _direction(a: Any, y: Any, p: float, axes: tuple[int, ...]) -> Any:
    """How the norm changes with each element, up to the factor `_scale` that the whole vector shares."""
    if p == 1:
        return sign(a)
    if p == 2:
        return a
    if p in (math.inf, -math.inf):
        return sign(a) * shares_row(abs(a), y, axes)
    if p > 2:
        return a * abs(a) ** (p - 2)
    if p > 1:
        return sign(a) * abs(a) ** (p - 1)
    return sign(a) * (abs(a) + (a == 0)) ** (p - 1)


def _scale(y: Any, p: float) -> Any:
    if p in (1, math.inf, -math.inf):
        return 1
    if p == 2:
        return (y != 0) / (y + (y == 0))
    return (y != 0) / (y + (y == 0)) ** (p - 1)


def _norm_back(g: Any, a: Any, y: Any, p: float, axes: tuple[int, ...], keepdim: bool) -> Any:
    shape = tuple(a.shape)
    if p == 0:
        return zeros_like_row(back(g, shape, axes, keepdim))
    if p == 2:  # a / y is at most 1, while 1 / y overflows for a short vector of halves
        return back(g * (y != 0), shape, axes, keepdim) * (a / back(y + (y == 0), shape, axes, keepdim))
    return back(g * _scale(y, p), shape, axes, keepdim) * _direction(a, y, p, axes)


def _norm_push(t: Any, a: Any, y: Any, p: float, axes: tuple[int, ...], keepdim: bool) -> Any:
    if p == 0:
        return zeros_like_row(y)
    return sum_row(t * _direction(a, y, p, axes), axes, keepdim) * _scale(y, p)


def norming(name: str, **columns: Any) -> Any:
    """A row (a, p, axes, keepdim) for norms of real vectors."""
    return bind(
        general(
            name, _norm, lambda g, a, y, p, axes, keepdim: _norm_back(g, a, y, p, axes, keepdim),
            jvp=lambda tangents, y, inputs, params: _norm_push(tangents[0], inputs[0], y, *params),
            dtypes="equal", batch=lambda op, a, p, axes, keepdim: op(a, p, shifted(axes), keepdim), **columns,
        )
    )  # fmt: skip


norm_row = norming("linalg_vector_norm")
dist_row = norming("dist")


def vector_norm(input: Any, p: float, dim: Any, keepdim: bool, row: Any = norm_row, dtype: Any = None) -> Any:
    """The p-norm over dimensions (None: all elements), computed in another dtype if one is given."""
    if not is_floating(input):
        what = "linalg.vector_norm: Expected a floating point or complex tensor as input."
        raise refusal(RuntimeError, f"{what} Got {name_of(input)}", try_="convert it first, e.g. x.float()")
    if dtype is not None:
        check_norm_dtype("linalg.vector_norm", input, dtypes.as_dtype(dtype))
        input = as_type(input, dtype)
    p = number(p)
    check_order("linalg.vector_norm", p)
    axes = normal(dim, input.ndim)
    if (p < 0 or p == math.inf) and 0 in [input.shape[i] for i in axes]:
        what = f"linalg.vector_norm cannot compute the {p} norm on an empty tensor"
        raise refusal(RuntimeError, f"{what} because the operation does not have an identity")
    return row(abs(input) if input.array.dtype.kind == "c" else input, p, axes, keepdim)


def check_order(name: str, order: Any) -> None:
    """Refuse a norm of complex order."""
    if isinstance(order, complex):
        raise refusal(RuntimeError, f"{name}: Expected a non-complex scalar as the order of norm. Got {order}")


def check_norm_dtype(name: str, input: Any, wanted: dtypes.dtype) -> None:
    """Refuse a dtype for the result that cannot hold what the input holds."""
    label = dtypes.scalar_name(wanted)
    if not (wanted.is_floating_point or wanted.is_complex):
        raise refusal(RuntimeError, f"{name}: dtype should be floating point or complex, but got {label}")
    if input.dtype.is_complex != wanted.is_complex:
        kind = "complex" if input.dtype.is_complex else "real"
        raise refusal(RuntimeError, f"{name}: dtype should be {kind} for {kind} inputs, but got {label}")
    if dtypes.promote_types(input.dtype, wanted) != wanted:
        what = f"the dtype of the input ({name_of(input)}) should be convertible without narrowing"
        raise refusal(RuntimeError, f"{name}: {what} to the specified dtype ({label})")


def norm_samples(draw: Draw) -> list[Sample]:
    """Every order of its own, and a general one, over all and over dimensions."""
    orders = [call(draw(2, 3), p) for p in (2, 1, 0, 3, 2.5, 1.5, 0.5, math.inf, -math.inf, -1, "fro", "nuc")]
    dims = [call(*sample.args[:1], 2, *sample.args[1:], **sample.kwargs) for sample in nonempty_samples(draw)]
    return [*orders, *dims, call(draw(2, 3)), call(draw(0)), call(draw(2, 3), p=3, dim=1, keepdim=True)]


@operation(samples=norm_samples)
def norm(input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """The p-norm of all elements, or along dimensions; `fro` is p = 2, `nuc` the sum of a matrix's singular values.

    >>> import pellucid as torch
    >>> torch.tensor([3.0, 4.0]).norm()
    tensor(5.)
    """
    if p == "fro" and (dim is None or isinstance(dim, int) or len(dim) <= 2):
        p = 2
    if not isinstance(p, str):
        return vector_norm(input, 2 if p is None else p, dim, keepdim, norm_row, dtype)
    from pellucid.ops.linalg.norms import matrix_norm

    return matrix_norm(input, p, tuple(range(input.ndim)) if dim is None else dim, keepdim, dtype=dtype)


@operation(
    samples=lambda draw: [
        call(draw(3), draw(3)), call(draw(2, 3), draw(2, 3)), call(draw(2, 3), draw(3)), call(draw(), draw()),
        call(draw(2, 3), draw(2, 3), 1), call(draw(2, 3), draw(2, 3), 3), call(draw(3), draw(3), math.inf),
        call(draw(3), draw(3), p=-math.inf), call(draw(3), draw(3), 2.5), call(draw(2, 1), draw(3), 1.5),
    ],
    tensors=2,
)  # fmt: skip
def dist(input: Any, other: Any, p: float = 2) -> Any:
    """The p-norm of a difference.

    >>> import pellucid as torch
    >>> torch.dist(torch.tensor([1.0, 1.0]), torch.tensor([4.0, 5.0]))
    tensor(5.)
    """
    return vector_norm(input - other, p, None, False, dist_row)
