"""What the decompositions share: pieces of their rules, checks, samples, and why some claims are not theirs.

Decompositions are not holomorphic, so their rules are written for complex numbers as they are; the walk hands them the
conjugate of what was saved, and `plain` undoes that.
"""

from typing import Any

import numpy as np

from pellucid.core import modes
from pellucid.core.tensor import Tensor
from pellucid.ops.arguments import is_floating, name_of, refusal
from pellucid.ops.complex_numbers import conj_row, imag_row, real_row
from pellucid.ops.diagonal import diag_embed_row
from pellucid.ops.linalg.matrices import adjoint, as_column, expect_wide
from pellucid.ops.operation import Draw
from pellucid.ops.select import drop, kind_of
from pellucid.ops.shape import reshape_row

# --- pieces that rules are made of


def is_complex(a: Any) -> bool:
    """Whether an array of any kind holds complex numbers."""
    return kind_of(a) == "c"


def plain(saved: Any) -> Any:
    """A value as the operation computed it: the walk hands rules the conjugate of complex ones."""
    return conj_row(saved) if is_complex(saved) else saved


def real_part(a: Any) -> Any:
    """The real part of any kind of array."""
    return real_row(a) if is_complex(a) else a


def along_columns(values: Any) -> Any:
    """One number per column: `a * along_columns(s)` is a @ diag(s), as `as_column(s) * a` is diag(s) @ a."""
    return reshape_row(values, (*values.shape[:-1], 1, values.shape[-1]))


def on_diagonal(values: Any) -> Any:
    """Square matrices with these values on their diagonal."""
    rank, size = values.ndim, values.shape[-1]
    return diag_embed_row(values, (*values.shape, size), 0, rank - 1, rank)


def places(a: Any) -> np.ndarray:
    """The mask of the diagonal of square matrices."""
    return np.eye(a.shape[-1], dtype=np.bool_)


def off_diagonal(a: Any) -> Any:
    """Square matrices with zeros on the diagonal."""
    return drop(a, places(a))


def hermitian_sum(a: Any) -> Any:
    """a + aᴴ."""
    return a + adjoint(a)


def skew_difference(a: Any) -> Any:
    """a - aᴴ."""
    return a - adjoint(a)


def differences(values: Any) -> Any:
    """values[j] - values[i], for every pair."""
    return along_columns(values) - as_column(values)


def per_gap(a: Any, gaps: Any) -> Any:
    """Elements off the diagonal divided by the gap between a pair of values; zeros on the diagonal."""
    return off_diagonal(a) / (gaps + places(a))


def turning(diagonal: Any) -> Any:
    """i·Im of a diagonal: how complex vectors turn."""
    return imag_row(diagonal) * 1j


def added(first: Any, second: Any) -> Any:
    """The sum of what there is; None is nothing."""
    return first if second is None else second if first is None else first + second


def wants_gradient(input: Any) -> bool:
    """Whether backward may ask for vectors: found with the values they cost less than a second run (47 : 78 ms)."""
    return bool(input.requires_grad) and modes.current().grad


# --- what is refused


def expect_kernel(input: Any, kernel: str) -> None:
    """Refuse dtypes for which PyTorch has no kernel: integers and 16-bit floats."""
    if not is_floating(input):
        raise refusal(NotImplementedError, f"\"{kernel}\" not implemented for '{name_of(input)}'", try_="A.float()")
    expect_wide(kernel, input, kernel)


def expect_free_phase(name: str, vectors: str, *turns: Any) -> None:
    """Refuse a loss that depends on the phase of complex vectors, which a decomposition does not determine.

    `turns` are the diagonals of vᴴ·gradient: what they say about turning the vectors must cancel. Only values that
    are known now can be checked: inside a transformed function there are none.
    """
    arrays = [turn.array if isinstance(turn, Tensor) else turn for turn in turns]
    if not all(isinstance(array, np.ndarray) and array.dtype.kind == "c" for array in arrays):
        return
    if not np.allclose(sum(array.imag for array in arrays), 0, rtol=1e-2, atol=1e-2):
        what = f"{name}: The {vectors} in the complex case are specified up to multiplication by e^{{i phi}}."
        raise refusal(
            RuntimeError,
            f"{what} The specified loss function depends on this quantity, so it is ill-defined.",
            "turning a vector by any angle gives another decomposition of the same matrix",
            "a loss that does not change then, e.g. of abs(v), of v @ v.mH, or of the values alone",
        )


# --- samples


def symmetric(draw: Draw, *shape: int, complex: bool = False) -> Tensor:
    """A sample of Hermitian matrices."""
    tensor = draw.complex(*shape) if complex else draw(*shape)
    array = tensor.array
    array[...] = array + array.conj().swapaxes(-1, -2)
    return tensor


def positive(draw: Draw, *shape: int, complex: bool = False) -> Tensor:
    """A sample of Hermitian positive-definite matrices."""
    tensor = draw.complex(*shape) if complex else draw(*shape, low=-1.0, high=1.0)
    array = tensor.array
    array[...] = array @ array.conj().swapaxes(-1, -2) + np.eye(shape[-1])
    return tensor


# --- claims of the generated tests that decompositions do not make, and why

HERMITIAN = "one triangle is read, but the derivative is that for matrices that stay Hermitian"
AMONG_HERMITIAN = {"gradient_equals_differences": HERMITIAN, "second_order_equals_differences": HERMITIAN}
ALSO_FORWARD = {**AMONG_HERMITIAN, "forward_mode_is_the_adjoint": HERMITIAN}
SIGNS = "the signs of the vectors are free, and PyTorch's LAPACK chooses others"
FREE_SIGNS = {
    "forward_equals_torch": SIGNS, "gradient_equals_torch": SIGNS, "second_order_equals_torch": SIGNS
}  # fmt: skip
