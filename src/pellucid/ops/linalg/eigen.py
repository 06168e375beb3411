"""Eigenvalues: A = V L V⁻¹, and A = V L Vᴴ for Hermitian A, whose eigenvalues are real and vectors orthonormal.

With P = V⁻¹ dA V the values move by the diagonal of P and the vectors by V (P / E), E the differences of the values;
those of `eig` are kept at length one. Equal values have no derivative of their vectors. `eigvals` and `eigvalsh`
compute no vectors where nobody will ask for a gradient. The kernels are NumPy's, for whole batches.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from pellucid import return_types
from pellucid.core.primitive import general
from pellucid.core.record import bind
from pellucid.errors import LinAlgError
from pellucid.ops.arguments import expect, is_floating, name_of, refusal
from pellucid.ops.linalg.decompositions import (
    ALSO_FORWARD,
    AMONG_HERMITIAN,
    FREE_SIGNS,
    added,
    along_columns,
    differences,
    expect_free_phase,
    expect_kernel,
    is_complex,
    on_diagonal,
    per_gap,
    plain,
    real_part,
    skew_difference,
    symmetric,
    wants_gradient,
)
from pellucid.ops.linalg.matrices import adjoint, diagonal_of, expect_square, expect_wide, matmul
from pellucid.ops.linalg.solve import solve_ex_row
from pellucid.ops.operation import Draw, Sample, call, operation

# --- Hermitian matrices


def _converged(name: str, algorithm: Callable[..., Any], *arguments: Any) -> Any:
    """What one of NumPy's algorithms gives, or PyTorch's error if it does not come to an end."""
    try:
        return algorithm(*arguments)
    except np.linalg.LinAlgError:
        what = "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated"
        raise refusal(LinAlgError, f"{name}: {what} eigenvalues.") from None


def _eigh(a: np.ndarray, triangle: str) -> Any:
    return _converged("linalg.eigh", np.linalg.eigh, a, triangle)


def _eigvalsh(a: np.ndarray, triangle: str) -> Any:
    return _converged("linalg.eigh", np.linalg.eigvalsh, a, triangle)


def _eigh_back(g: Any, y: Any, triangle: str) -> Any:
    (gl, gv), (values, v) = g, (plain(part) for part in y)
    if gv is None:
        return (_of_values(gl, v),)
    inner = matmul(adjoint(v), gv)
    expect_free_phase("linalg_eigh_backward", "eigenvectors", diagonal_of(inner))
    inner = per_gap(skew_difference(inner) * 0.5, differences(values))
    return (matmul(v, matmul(added(inner, None if gl is None else on_diagonal(gl)), adjoint(v))),)


def _of_values(gl: Any, v: Any) -> Any:
    return matmul(v * along_columns(gl), adjoint(v))


def _eigh_jvp(tangents: Any, y: Any, inputs: Any, params: Any) -> tuple[Any, Any]:
    values, v = y
    moved = matmul(adjoint(v), matmul(tangents[0], v))
    return real_part(diagonal_of(moved)), matmul(v, per_gap(moved, differences(values)))


def _eigvalsh_jvp(tangents: Any, y: Any, inputs: Any, params: Any) -> Any:
    v = eigh_row(inputs[0], *params)[1]
    return real_part(diagonal_of(matmul(adjoint(v), matmul(tangents[0], v))))


# eigh_row(a, triangle): eigenvalues in ascending order, and eigenvectors; one triangle, "L" or "U", is read.
eigh_row = bind(
    general(
        "linalg_eigh", _eigh, None, pullback=_eigh_back, jvp=_eigh_jvp, outputs=2, dtypes="equal",
        batch=lambda op, a, triangle: op(a, triangle),
    )
)  # fmt: skip
eigvalsh_row = bind(
    general(
        "linalg_eigvalsh", _eigvalsh, lambda g, a, triangle: _of_values(g, eigh_row(plain(a), triangle)[1]),
        jvp=_eigvalsh_jvp, dtypes="equal", batch=lambda op, a, triangle: op(a, triangle),
        grad_name="LinalgEighBackward0",
    )
)  # fmt: skip


def _real_samples(draw: Draw) -> list[Sample]:
    return [
        call(symmetric(draw, 3, 3)), call(symmetric(draw, 3, 3), UPLO="U"), call(symmetric(draw, 2, 3, 3)),
        call(draw(0, 0)), call(draw(0, 2, 2)), call(symmetric(draw, 1, 1)), call(symmetric(draw, 2, 1, 2, 2), "l"),
    ]  # fmt: skip


@operation(samples=_real_samples, module="torch.linalg", unclaimed={**ALSO_FORWARD, **FREE_SIGNS})
def eigh(input: Any, UPLO: str = "L") -> Any:
    """Eigenvalues, in ascending order, and eigenvectors of Hermitian matrices, of which one triangle is read.

    >>> import pellucid as torch
    >>> torch.linalg.eigh(torch.tensor([[2.0, 1.0], [1.0, 2.0]])).eigenvalues
    tensor([1., 3.])
    """
    return return_types.linalg_eigh(*eigh_row(input, _expect_hermitian(input, UPLO)))


@operation(
    samples=lambda draw: [
        *_real_samples(draw), call(symmetric(draw, 3, 3, complex=True)),
        call(symmetric(draw, 2, 2, 2, complex=True), UPLO="U"), call(symmetric(draw, 3, 3).detach()),
    ],
    module="torch.linalg", unclaimed=AMONG_HERMITIAN,
)  # fmt: skip
def eigvalsh(input: Any, UPLO: str = "L") -> Any:
    """Eigenvalues of Hermitian matrices, in ascending order.

    >>> import pellucid as torch
    >>> torch.linalg.eigvalsh(torch.tensor([[2.0, 1.0], [1.0, 2.0]]))
    tensor([1., 3.])
    """
    triangle = _expect_hermitian(input, UPLO)
    return eigh_row(input, triangle)[0] if wants_gradient(input) else eigvalsh_row(input, triangle)


def _expect_hermitian(A: Any, triangle: str) -> str:
    """Refuse what has no real eigenvalues; which triangle is read, as NumPy says it."""
    expect_square("linalg.eigh", A)
    expect(triangle in ("L", "U", "l", "u"), f"Expected UPLO argument to be 'L' or 'U', but got {triangle}")
    expect_kernel(A, "linalg_eigh_cpu")
    return triangle.upper()


# --- any square matrix: values and vectors are complex


def _complex_type(a: np.ndarray) -> np.dtype:
    return np.result_type(a.dtype, np.complex64)


def _eig(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    _expect_finite(a)
    values, vectors = _converged("linalg.eig", np.linalg.eig, a)
    target = _complex_type(a)
    return values.astype(target, copy=False), vectors.astype(target, copy=False)


def _eigvals(a: np.ndarray) -> np.ndarray:
    _expect_finite(a)
    return _converged("linalg.eig", np.linalg.eigvals, a).astype(_complex_type(a), copy=False)  # type: ignore[no-any-return]


def _expect_finite(a: np.ndarray) -> None:
    if not np.isfinite(a).all():
        raise refusal(RuntimeError, "torch.linalg.eig: input tensor should not contain infs or NaNs.")


def _between(inner: Any, v: Any, real: bool) -> Any:
    """V⁻ᴴ · inner · Vᴴ: the gradient of A from that of V⁻¹ A V; of a real A it is real."""
    gradient = solve_ex_row(adjoint(v), matmul(inner, adjoint(v)))[0]
    return real_part(gradient) if real else gradient


def _eig_back(g: Any, y: Any, real: bool) -> Any:
    (gl, gv), (values, v) = g, (y if real else (plain(part) for part in y))
    inner = None if gl is None else on_diagonal(gl)
    if gv is not None:
        turn = matmul(adjoint(v), gv)
        lengths = diagonal_of(turn)
        expect_free_phase("linalg_eig_backward", "eigenvectors", lengths)
        turn = turn - matmul(adjoint(v), v * along_columns(real_part(lengths)))
        inner = added(per_gap(turn, plain(differences(values))), inner)
    return (_between(inner, v, real),)


def _moved(t: Any, v: Any) -> Any:
    """V⁻¹ t V."""
    product = matmul(t if is_complex(t) else t + 0j, v)
    return solve_ex_row(v, product)[0]


def _eig_jvp(tangents: Any, y: Any, inputs: Any, params: Any) -> tuple[Any, Any]:
    values, v = y
    moved = _moved(tangents[0], v)
    turn = matmul(v, per_gap(moved, differences(values)))
    lengths = real_part(diagonal_of(matmul(adjoint(v), turn)))
    return diagonal_of(moved), turn - v * along_columns(lengths)


def _eigvals_rule(g: Any, a: Any) -> Any:
    matrix = plain(a)
    return _between(on_diagonal(g), eig_row(matrix, not is_complex(matrix))[1], not is_complex(matrix))


# eig_row(a, real): eigenvalues and eigenvectors; `real` says that `a` is real, and so is its gradient.
eig_row = bind(
    general(
        "linalg_eig", lambda a, real: _eig(a), None, pullback=_eig_back, jvp=_eig_jvp, outputs=2, dtypes="equal",
        batch=lambda op, a, real: op(a, real),
    )
)  # fmt: skip
eigvals_row = bind(
    general(
        "linalg_eigvals", _eigvals, _eigvals_rule,
        jvp=lambda tangents, y, inputs, params: diagonal_of(
            _moved(tangents[0], eig_row(inputs[0], not is_complex(inputs[0]))[1])
        ),
        dtypes="equal", batch=lambda op, a: op(a), grad_name="LinalgEigBackward0",
    )
)  # fmt: skip


@operation(
    samples=lambda draw: [
        *(call(draw(*shape).detach()) for shape in [(3, 3), (2, 3, 3), (0, 0), (0, 2, 2), (1, 1)]),
        call(draw.complex(3, 3).detach()), call(draw.complex(2, 2, 2).detach()),
    ],
    module="torch.linalg",
    out="cast",
)  # fmt: skip
def eig(input: Any) -> Any:
    """Eigenvalues and eigenvectors of any square matrices, as complex numbers.

    Only what does not depend on the phase of the eigenvectors has a gradient.

    >>> import pellucid as torch
    >>> torch.linalg.eig(torch.tensor([[0.0, 1.0], [-1.0, 0.0]])).eigenvalues
    tensor([0.+1.j, 0.-1.j])
    """
    _expect_general("linalg.eig", input)
    return return_types.linalg_eig(*eig_row(input, not is_complex(input)))


@operation(
    samples=lambda draw: [
        *(call(draw(*shape)) for shape in [(3, 3), (2, 3, 3), (0, 0), (0, 2, 2), (1, 1)]),
        call(draw.complex(3, 3)), call(draw.complex(2, 2, 2)), call(draw(2, 2).detach()),
    ],
    module="torch.linalg",
    out="cast",
)  # fmt: skip
def eigvals(input: Any) -> Any:
    """Eigenvalues of any square matrices, as complex numbers, in no particular order.

    >>> import pellucid as torch
    >>> torch.linalg.eigvals(torch.tensor([[0.0, 1.0], [-1.0, 0.0]]))
    tensor([0.+1.j, 0.-1.j])
    """
    _expect_general("linalg.eigvals", input)
    return eig_row(input, not is_complex(input))[0] if wants_gradient(input) else eigvals_row(input)


def _expect_general(name: str, A: Any) -> None:
    expect_square(name, A)
    if not is_floating(A):
        raise refusal(RuntimeError, f"{name}: Unknown Complex ScalarType for {name_of(A)}", try_="A.float()")
    expect_wide(name, A, "linalg_eig_out_cpu")
