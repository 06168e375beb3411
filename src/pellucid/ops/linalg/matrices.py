"""What linear algebra asks of its matrices, and what its rules do with them: batches, transposes, failures.

A matrix is the last two axes of an array; all axes before them are the batch.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from pellucid.core.attention import HALVES
from pellucid.core.primitive import constant
from pellucid.core.record import bind
from pellucid.core.tensor import Tensor
from pellucid.errors import LinAlgError
from pellucid.ops import matmul as products
from pellucid.ops.arguments import expect, is_floating, name_of, refusal
from pellucid.ops.complex_numbers import conj_row
from pellucid.ops.diagonal import diagonal_row
from pellucid.ops.matmul import swap
from pellucid.ops.operation import Draw
from pellucid.ops.select import kind_of
from pellucid.ops.shape import aligned, reshape_row

INT32 = np.dtype(np.int32)


# --- what arguments must be


def expect_floating(name: str, input: Any) -> None:
    """Refuse integers and truth values."""
    if not is_floating(input):
        what = f"{name}: Expected a floating point or complex tensor as input. Got {name_of(input)}"
        raise refusal(RuntimeError, what, try_="convert it first, e.g. A.float()")


def expect_wide(name: str, input: Any, kernel: str) -> None:
    """Refuse 16-bit floats, which PyTorch's kernel does not take either."""
    if input.array.dtype in HALVES:
        what = f"{name}: \"{kernel}\" not implemented for '{name_of(input)}'"
        raise refusal(NotImplementedError, what, "LAPACK computes in 32 and 64 bits", "A.float()")


def expect_matrix(name: str, input: Any, argument: str = "A") -> None:
    """Refuse what has fewer than two dimensions."""
    expect(input.ndim >= 2, f"{name}: The input tensor {argument} must have at least 2 dimensions.")


def expect_square(name: str, input: Any, argument: str = "A") -> None:
    """Refuse what is no (batch of) square matrices."""
    expect_matrix(name, input, argument)
    rows, columns = input.shape[-2:]
    expect(
        rows == columns,
        f"{name}: {argument} must be batches of square matrices, but they are {rows} by {columns} matrices",
    )


def expect_factorable(name: str, input: Any) -> None:
    """What every operation that factorises a square matrix asks."""
    expect_square(name, input)
    expect_floating(name, input)
    expect_wide(name, input, "lu_cpu")


def expect_same_dtype(name: str, first: Any, second: Any) -> None:
    """Refuse matrices of different dtypes."""
    if np.dtype(first.array.dtype) != np.dtype(second.array.dtype):
        types = f"found A of type {name_of(first)} and B of type {name_of(second)} instead"
        what = f"{name}: Expected A and B to have the same dtype, but {types}"
        raise refusal(RuntimeError, what, try_="B.to(A.dtype)")


# --- pieces that rules are made of


def adjoint(a: Any) -> Any:
    """The conjugate transpose of every matrix."""
    turned = swap(a)
    return conj_row(turned) if kind_of(a) == "c" else turned


def matmul(a: Any, b: Any) -> Any:
    """A product beside a factorisation: arrays by NumPy, whose threads that has woken.

    Those of our kernels would wait for the same cores: an 800x800 after a triangular system 11 ms, by NumPy 5.
    """
    plain = type(a) is type(b) is np.ndarray
    return np.matmul(a, b) if plain else products.matmul(a, b)


def as_column(a: Any) -> Any:
    """Vectors along the last axis as matrices of one column."""
    return reshape_row(a, (*a.shape, 1))


def without_column(a: Any) -> Any:
    """Matrices of one column as vectors."""
    return reshape_row(a, tuple(a.shape[:-1]))


def diagonal_of(a: Any) -> Any:
    """The diagonal of every matrix."""
    return diagonal_row(a, 0, a.ndim - 2, a.ndim - 1)


# identity_row(a): the identity for each of a's matrices.
identity_row = bind(
    constant(
        "identity_like", lambda a: np.broadcast_to(np.eye(a.shape[-2], a.shape[-1], dtype=a.dtype), a.shape), 1,
        batch=lambda op, a: op(a),
    )
)  # fmt: skip


def paired(op: Callable[..., Any], a: Any, b: Any, *params: Any) -> Any:
    """The `batch` column of a row of two (batches of) matrices that broadcast."""
    rank = max(a.ndim, b.ndim) - 1
    return op(aligned(a, rank), aligned(b, rank), *params)


# --- kernels that take one matrix at a time


def each_matrix(*arrays: np.ndarray) -> Iterator[tuple[tuple[int, ...], tuple[np.ndarray, ...]]]:
    """Walk over a batch: the index of each element and its matrices, broadcast against each other."""
    if all(array.ndim == 2 for array in arrays):
        yield (), arrays
        return
    batch = np.broadcast_shapes(*(array.shape[:-2] for array in arrays))
    whole = [np.broadcast_to(array, batch + array.shape[-2:]) for array in arrays]
    for index in np.ndindex(batch):
        yield index, tuple(array[index] for array in whole)


def failure(name: str, infos: np.ndarray, why: str) -> Exception:
    """The error for the first element of a batch whose `info` is not zero; `{}` in `why` is that number."""
    first = int(np.flatnonzero(infos)[0])
    place = f" (Batch element {first}):" if infos.ndim else ""
    return refusal(LinAlgError, f"{name}:{place} {why.format(infos.reshape(-1)[first])}")


# --- samples


def invertible(draw: Draw, *shape: int, complex: bool = False) -> Tensor:
    """A sample of matrices far from singular ones: random numbers, and more on the diagonal."""
    tensor = draw.complex(*shape) if complex else draw(*shape, low=-1.0, high=1.0)
    tensor.array += 3 * np.eye(shape[-2], shape[-1])
    return tensor
