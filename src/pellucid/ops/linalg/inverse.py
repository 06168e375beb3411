"""Inverses of square matrices. With Y = A⁻¹ the gradient of A is -Yᴴ g Yᴴ, and its tangent moves Y by -Y t Y."""

from typing import Any

import numpy as np

from pellucid import return_types
from pellucid.core.primitive import general
from pellucid.core.record import bind
from pellucid.ops.linalg.matrices import INT32, expect_factorable, failure, invertible
from pellucid.ops.linalg.solve import solve_each
from pellucid.ops.matmul import swap
from pellucid.ops.operation import Draw, Sample, call, operation

SINGULAR = (
    "The diagonal element {} is zero, the inversion could not be completed because the input matrix is singular."
)


def _inv(a: np.ndarray) -> np.ndarray:
    return _inv_ex(a, "linalg.inv")[0]


def _inv_ex(a: np.ndarray, name: str | None) -> tuple[np.ndarray, np.ndarray]:
    try:
        return np.linalg.inv(a), np.zeros(a.shape[:-2], INT32)
    except np.linalg.LinAlgError:
        inverse, infos = solve_each(a, np.eye(a.shape[-1], dtype=a.dtype))
    if name is not None and infos.any():  # on the edge of singular NumPy's LAPACK and SciPy's may not agree
        raise failure(name, infos, SINGULAR)
    return inverse, infos


def _inv_back(g: Any, y: Any) -> Any:
    back = swap(y)
    return -(back @ g @ back)


def _inv_jvp(t: Any, y: Any) -> Any:
    return -(y @ t @ y)


# inv_row(a): a⁻¹, or an error if one of the matrices is singular.
inv_row = bind(
    general(
        "linalg_inv", _inv, _inv_back, jvp=lambda tangents, y, inputs, params: _inv_jvp(tangents[0], y),
        dtypes="equal", batch=lambda op, a: op(a), grad_name="LinalgInvExBackward0",
    )
)  # fmt: skip

# inv_ex_row(a, name): a⁻¹ and 0, or which diagonal element made a matrix singular; an error then if there is a name.
inv_ex_row = bind(
    general(
        "linalg_inv_ex", _inv_ex, None, pullback=lambda g, y, name: (_inv_back(g[0], y[0]),),
        jvp=lambda tangents, y, inputs, params: (_inv_jvp(tangents[0], y[0]), None),
        outputs=2, dtypes="equal", batch=lambda op, a, name: op(a, name),
    )
)  # fmt: skip


def _inverse_samples(draw: Draw) -> list[Sample]:
    shapes = [(3, 3), (2, 2, 2), (1, 1), (0, 0), (0, 3, 3), (2, 1, 3, 3)]
    return [*(call(invertible(draw, *shape)) for shape in shapes), call(invertible(draw, 2, 3, 3, complex=True))]


@operation(samples=_inverse_samples, module="torch.linalg")
def inv(A: Any) -> Any:
    """The inverse of every matrix of a batch.

    >>> import pellucid as torch
    >>> torch.linalg.inv(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    expect_factorable("linalg.inv", A)
    return inv_row(A)


@operation(samples=_inverse_samples)
def inverse(input: Any) -> Any:
    """The inverse of every matrix of a batch: `linalg.inv`.

    >>> import pellucid as torch
    >>> torch.inverse(torch.tensor([[4.0]]))
    tensor([[0.2500]])
    """
    return inv(input)


@operation(samples=_inverse_samples, module="torch.linalg")
def inv_ex(A: Any, *, check_errors: bool = False) -> Any:
    """`inv` without an error where a matrix is singular: `info` is then not 0.

    >>> import pellucid as torch
    >>> torch.linalg.inv_ex(torch.zeros(2, 2)).info
    tensor(1, dtype=torch.int32)
    """
    expect_factorable("linalg.inv_ex", A)
    return return_types.linalg_inv_ex(*inv_ex_row(A, "linalg.inv_ex" if check_errors else None))
