"""Products of Householder reflectors H = I - τ v vᴴ: the Q that geqrf leaves behind, and Q times another matrix.

All reflectors at once: Q = H₁⋯Hₖ = I - V T Vᴴ, with T = (I + D W)⁻¹ D, D = diag(τ) and W the part of VᴴV above the
diagonal. So a product is three matrix products and one triangular system, for whole batches, and everything can be
differentiated. V is read from below the diagonal of the reflectors and has ones on it.
"""

from typing import Any

import numpy as np

from pellucid.core.primitive import general
from pellucid.core.record import bind
from pellucid.ops.arguments import expect, name_of, refusal
from pellucid.ops.diagonal import tril_row, triu_row
from pellucid.ops.linalg.decompositions import expect_kernel, plain
from pellucid.ops.linalg.matrices import adjoint, as_column, diagonal_of, identity_row, matmul
from pellucid.ops.linalg.solve import solve_triangular_row
from pellucid.ops.operation import Draw, Sample, call, operation
from pellucid.ops.slicing import slice_row, unslice_row


def _first_columns(a: Any, count: int) -> Any:
    return slice_row(a, (..., slice(count)))


def _vectors(a: Any, count: int) -> Any:
    """V: the columns below the diagonal, with ones on it."""
    read = _first_columns(a, count)
    return tril_row(read, -1) + identity_row(read)


def _coupling(v: Any, tau: Any) -> tuple[Any, Any, Any]:
    """W, the matrix I + D W, and T = (I + D W)⁻¹ D."""
    w = triu_row(matmul(adjoint(v), v), 1)
    system = as_column(tau) * w + identity_row(w)
    return w, system, solve_triangular_row(system, as_column(tau) * identity_row(w), True, True)


def _reflected(a: Any, tau: Any, c: Any, transpose: bool) -> Any:
    """Q c, or Qᴴ c."""
    v = _vectors(a, tau.shape[-1])
    t = _coupling(v, tau)[2]
    return c - matmul(v, matmul(adjoint(t) if transpose else t, matmul(adjoint(v), c)))


# --- derivatives


def _reflected_back(g: Any, a: Any, tau: Any, c: Any, transpose: bool) -> tuple[Any, Any, Any]:
    """The gradients of the reflectors, of τ and of c."""
    v = _vectors(a, tau.shape[-1])
    w, system, t = _coupling(v, tau)
    seen, back = matmul(adjoint(v), c), matmul(adjoint(v), g)  # Vᴴc, Vᴴg
    gc = g - matmul(v, matmul(t if transpose else adjoint(t), back))
    gt = -matmul(back, adjoint(seen))  # of T, or of Tᴴ
    outer = adjoint(t) if transpose else t
    gv = -(matmul(g, adjoint(matmul(outer, seen))) + matmul(c, adjoint(matmul(adjoint(outer), back))))
    gt = adjoint(gt) if transpose else gt
    gw = triu_row(-matmul(adjoint(t), matmul(gt, adjoint(t))), 1)
    gv = gv + matmul(v, gw + adjoint(gw))
    inner = matmul(gt, adjoint(identity_row(t) - matmul(w, t)))
    g_tau = diagonal_of(solve_triangular_row(adjoint(system), inner, False, True))
    below = tril_row(gv, -1)
    return unslice_row(below, tuple(a.shape), (..., slice(tau.shape[-1]))), g_tau, gc


def _moved(ta: Any, t_tau: Any, a: Any, tau: Any) -> tuple[Any, Any, Any, Any]:
    """V and T, and how they move."""
    v = _vectors(a, tau.shape[-1])
    w, system, t = _coupling(v, tau)
    dv = tril_row(_first_columns(ta, tau.shape[-1]), -1)
    inside = matmul(adjoint(dv), v)
    dw = triu_row(inside + adjoint(inside), 1)
    turned = as_column(t_tau) * (identity_row(t) - matmul(w, t))
    dt = solve_triangular_row(system, turned, True, True) - matmul(t, matmul(dw, t))
    return v, t, dv, dt


def _reflected_jvp(tangents: Any, y: Any, inputs: Any, params: Any) -> Any:
    a, tau, c = inputs
    ta, t_tau, tc = (x * 0 if t is None else t for t, x in zip(tangents, inputs, strict=True))
    v, t, dv, dt = _moved(ta, t_tau, a, tau)
    if params[0]:
        t, dt = adjoint(t), adjoint(dt)
    seen = matmul(adjoint(v), c)
    seen_moved = matmul(adjoint(dv), c) + matmul(adjoint(v), tc)
    return tc - matmul(dv, matmul(t, seen)) - matmul(v, matmul(dt, seen) + matmul(t, seen_moved))


# ormqr_row(a, tau, c, transpose): Q c or Qᴴ c.
ormqr_row = bind(
    general(
        "ormqr", _reflected, None, None, None,
        pullback=lambda g, a, b, c, transpose: _reflected_back(g, plain(a), plain(b), plain(c), transpose),
        jvp=_reflected_jvp, dtypes="equal", batch=lambda op, a, tau, c, transpose: op(a, tau, c, transpose),
    )
)  # fmt: skip

# householder_product_row(a, tau): as many columns of Q as `a` has.
householder_product_row = bind(
    general(
        "linalg_householder_product", lambda a, tau: _reflected(a, tau, identity_row(a), False), None, None,
        pullback=lambda g, a, b: _reflected_back(g, plain(a), plain(b), identity_row(a), False)[:2],
        jvp=lambda tangents, y, inputs, params: _reflected_jvp(
            (*tangents, None), y, (*inputs, identity_row(inputs[0])), (False,)
        ),
        dtypes="equal", batch=lambda op, a, tau: op(a, tau),
    )
)  # fmt: skip


# --- the public functions


def _product_samples(draw: Draw) -> list[Sample]:
    shapes = [((3, 3), 3), ((4, 2), 2), ((4, 3), 2), ((2, 3, 2), 2), ((3, 0), 0), ((0, 3, 2), 2), ((3, 2), 0)]
    return [
        *(call(draw(*shape), draw(*shape[:-2], count)) for shape, count in shapes),
        call(draw.complex(3, 2), draw.complex(2)), call(draw.complex(2, 2, 2), draw.complex(2, 1)),
    ]  # fmt: skip


@operation(samples=_product_samples, module="torch.linalg", methods=("orgqr",), aliases=("torch.orgqr",), out="cast")
def householder_product(input: Any, tau: Any) -> Any:
    """The first columns of the product of the reflectors below the diagonal of A: the Q of `geqrf`.

    >>> import pellucid as torch
    >>> a, tau = torch.geqrf(torch.tensor([[3.0], [4.0]]))
    >>> torch.linalg.householder_product(a, tau)
    tensor([[-0.6000],
            [-0.8000]])
    """
    name = "torch.linalg.householder_product"
    expect(input.ndim >= 2, f"{name}: input must have at least 2 dimensions.")
    rows, columns = input.shape[-2:]
    greater = "must be greater than or equal to"
    expect(rows >= columns, f"{name}: input.shape[-2] {greater} input.shape[-1]")
    expect(columns >= tau.shape[-1], f"{name}: input.shape[-1] {greater} tau.shape[-1]")
    _expect_batch(name, "tau", tau, input, 1)
    what = f"tau dtype {name_of(tau)} does not match input dtype {name_of(input)}"
    _expect_dtype(name, tau, input, what, "orgqr_cpu")
    return householder_product_row(input, tau)


def _expect_batch(name: str, label: str, value: Any, input: Any, less: int) -> None:
    """Refuse an argument whose leading dimensions are not the input's."""
    count = "one dimension less than input" if less else "the same number of dimensions as input"
    found = f"{label}.ndim equal to {value.ndim} and input.ndim is equal to {input.ndim}"
    expect(value.ndim == input.ndim - less, f"{name}: Expected {label} to have {count}, but got {found}")
    batch = tuple(value.shape[: input.ndim - 2])
    wanted = f"{name}: Expected batch dimensions of {label} to be equal to input.shape[:-2]"
    expect(batch == tuple(input.shape[:-2]), f"{wanted}, but got {list(batch)}")


def _expect_dtype(name: str, other: Any, input: Any, what: str, kernel: str) -> None:
    """Refuse tensors of different dtypes, and dtypes for which PyTorch has no kernel."""
    if np.dtype(other.array.dtype) != np.dtype(input.array.dtype):
        raise refusal(RuntimeError, f"{name}: {what}", try_="convert one of them, e.g. tau.to(A.dtype)")
    expect_kernel(input, kernel)


def _ormqr_samples(draw: Draw) -> list[Sample]:
    def sample(shape: tuple[int, ...], count: int, other: tuple[int, ...], **options: bool) -> Sample:
        return call(draw(*shape), draw(*shape[:-2], count), draw(*other), **options)

    complex_numbers = draw.complex(3, 2), draw.complex(2), draw.complex(3, 1)
    return [
        sample((3, 3), 3, (3, 2)), sample((3, 2), 2, (3, 3), transpose=True), sample((3, 2), 2, (2, 3), left=False),
        sample((3, 3), 3, (2, 3), left=False, transpose=True), sample((2, 3, 2), 2, (2, 3, 1)),
        sample((0, 3, 2), 2, (0, 3, 1)), sample((3, 0), 0, (3, 2)), call(*complex_numbers, True, True),
        call(complex_numbers[0], complex_numbers[1], draw.complex(2, 3), False),
    ]  # fmt: skip


@operation(samples=_ormqr_samples)
def ormqr(input: Any, input2: Any, input3: Any, left: bool = True, transpose: bool = False) -> Any:
    """The product of the reflectors below the diagonal of the input, times another matrix (`left=False`: after it).

    `input2` is the tau of `geqrf`, `input3` the other matrix; with `transpose` the product's adjoint is taken.

    >>> import pellucid as torch
    >>> a, tau = torch.geqrf(torch.tensor([[3.0], [4.0]]))
    >>> torch.ormqr(a, tau, torch.tensor([[3.0], [4.0]]), transpose=True).round()
    tensor([[-5.],
            [ 0.]])
    """
    _expect_product(input, input2, input3, left)
    if left:
        return ormqr_row(input, input2, input3, bool(transpose))
    return adjoint(ormqr_row(input, input2, adjoint(input3), not transpose))


def _expect_product(input: Any, tau: Any, other: Any, left: bool) -> None:
    name, axis = "torch.ormqr", -2 if left else -1
    expect(input.ndim >= 2, f"{name}: input must have at least 2 dimensions.")
    expect(other.ndim >= 2, f"{name}: other must have at least 2 dimensions.")
    size = other.shape[axis]
    expect(
        tau.shape[-1] == min(size, input.shape[-1]),
        f"{name}: tau.shape[-1] must be equal to min(other.shape[{axis}], input.shape[-1])",
    )
    expect(size == input.shape[-2], f"{name}: other.shape[{axis}] must be equal to input.shape[-2]")
    _expect_batch(name, "tau", tau, input, 1)
    _expect_batch(name, "other", other, input, 0)
    for label, value in (("tau", tau), ("other", other)):
        types = f"input has dtype {name_of(input)} and {label} has dtype {name_of(value)}"
        what = f"Expected input and {label} to have the same dtype, but {types}"
        _expect_dtype(name, value, input, what, "ormqr_cpu")
