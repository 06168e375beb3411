"""Tensors that PyTorch keeps sparse, which are dense here: the numbers are the same, the memory is not saved."""

from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core.attributes import attribute
from pellucid.core.tensor import Tensor, wrap
from pellucid.ops.arguments import refusal
from pellucid.ops.create import check_room
from pellucid.ops.index import index_put
from pellucid.ops.matmul import mm

__all__ = ["smm", "sparse_coo_tensor", "sparse_csr_tensor", "spmm"]

spmm = smm = mm


def sparse_coo_tensor(
    indices: Any, values: Any = None, size: Any = None, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False, check_invariants: Any = None, is_coalesced: Any = None,
) -> Tensor:  # fmt: skip
    """The dense tensor with values at some places and zeros elsewhere; values at the same place are added.

    >>> import pellucid as torch
    >>> torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 0]], [3.0, 4.0, 5.0], (2, 3))
    tensor([[0., 0., 3.],
            [9., 0., 0.]])
    """
    if values is None:  # only a size was given: an empty matrix
        return wrap(np.zeros(tuple(indices), dtypes.as_numpy_dtype(dtype or dtypes.get_default_dtype())))
    places = Tensor.from_data(indices) if not isinstance(indices, Tensor) else indices
    given = Tensor.from_data(values) if not isinstance(values, Tensor) else values
    if dtype is not None:
        given = given.to(dtype)  # type: ignore[attr-defined]
    if places.ndim != 2:
        raise refusal(RuntimeError, f"indices must be sparse_dim x nnz, but got a {places.ndim}-D tensor")
    shape = _shape(places.array, given.array) if size is None else tuple(size)
    check_room("sparse_coo_tensor", shape, given.array.dtype)
    result = wrap(np.zeros(shape, given.array.dtype))
    result = index_put(result, tuple(places.long()), given, accumulate=True)  # type: ignore[attr-defined, arg-type]
    return result.detach().requires_grad_(requires_grad) if requires_grad else result  # type: ignore[attr-defined, no-any-return]


def _shape(places: np.ndarray, values: np.ndarray) -> tuple[int, ...]:
    """The smallest shape that holds all places."""
    return (*(int(each) + 1 for each in places.max(axis=1, initial=-1)), *values.shape[1:])


def sparse_csr_tensor(
    crow_indices: Any, col_indices: Any, values: Any, size: Any = None, *, dtype: Any = None, **options: Any
) -> Tensor:
    """The dense matrix given by where its rows begin, the columns and the values.

    >>> import pellucid as torch
    >>> rows_begin, columns, values = [0, 2, 3], [0, 2, 1], [1.0, 2.0, 3.0]
    >>> torch.sparse_csr_tensor(rows_begin, columns, values, (2, 3))
    tensor([[1., 0., 2.],
            [0., 3., 0.]])
    """
    begins, columns = (np.asarray(getattr(each, "array", each)) for each in (crow_indices, col_indices))
    rows = np.repeat(np.arange(len(begins) - 1), np.diff(begins))
    shape = (len(begins) - 1, int(columns.max(initial=-1)) + 1) if size is None else size
    return sparse_coo_tensor(wrap(np.stack([rows, columns])), values, shape, dtype=dtype)


@attribute
def to_sparse(self: Tensor, *args: Any, **options: Any) -> Tensor:
    """The tensor itself, which stays dense."""
    return self


@attribute
def coalesce(self: Tensor) -> Tensor:
    """The tensor itself, in which every place has one value."""
    return self


@attribute
def is_coalesced(self: Tensor) -> bool:
    """True: every place has one value."""
    return True


def indices(self: Tensor) -> Tensor:
    """The places of what is not zero, one column each."""
    return self.nonzero().T  # type: ignore[attr-defined, no-any-return]


def values(self: Tensor) -> Tensor:
    """What is not zero, in the order of `indices`."""
    return self[self.ne(0)]  # type: ignore[attr-defined, index, no-any-return]


def stored(self: Tensor) -> int:
    """How many values a sparse tensor of these numbers would store: those that are not zero."""
    return int(np.count_nonzero(self.array))


@attribute
def to_sparse_csr(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """The matrix itself, which stays dense.

    >>> import pellucid as torch
    >>> a = torch.tensor([[0.0, 2.0], [3.0, 4.0]]).to_sparse_csr()
    >>> a.crow_indices(), a.col_indices(), a.values()
    (tensor([0, 1, 3]), tensor([1, 0, 1]), tensor([2., 3., 4.]))
    """
    if self.array.ndim != 2 or dense_dim:
        raise refusal(NotImplementedError, f"to_sparse_csr is for matrices, not for a {self.array.ndim}-D tensor")
    return self


@attribute
def crow_indices(self: Tensor) -> Tensor:
    """Where among `values` each row of a matrix begins, and where the last one ends.

    >>> import pellucid as torch
    >>> torch.tensor([[0.0, 2.0], [3.0, 4.0]]).crow_indices()
    tensor([0, 1, 3])
    """
    return wrap(np.concatenate([[0], np.cumsum(np.count_nonzero(self.array, axis=1))]))


@attribute
def col_indices(self: Tensor) -> Tensor:
    """The columns of what is not zero in a matrix, row by row.

    >>> import pellucid as torch
    >>> torch.tensor([[0.0, 2.0], [3.0, 4.0]]).col_indices()
    tensor([1, 0, 1])
    """
    return wrap(np.ascontiguousarray(np.nonzero(self.array)[1]))


def _by_columns(name: str) -> None:
    """A method for an order of values that a dense matrix cannot answer for."""

    def refuse(self: Tensor, *args: Any, **options: Any) -> Any:
        raise refusal(NotImplementedError, f"Pellucid has no Tensor.{name}", "matrices are dense", "to_sparse_csr()")

    refuse.__name__ = name
    refuse.__doc__ = f"""Always an error: matrices are dense.

    >>> import pellucid as torch
    >>> try:
    ...     torch.eye(2).{name}()
    ... except NotImplementedError as error:
    ...     print(str(error).splitlines()[0])
    Pellucid has no Tensor.{name}
    """
    attribute(refuse)


for _name in ("to_sparse_bsc", "to_sparse_bsr", "to_sparse_csc"):
    _by_columns(_name)
_questions = {"indices": indices, "_indices": indices, "values": values, "_values": values, "_nnz": stored}
for _name, _question in _questions.items():
    setattr(Tensor, _name, _question)
