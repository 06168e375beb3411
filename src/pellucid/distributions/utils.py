"""torch.distributions.utils: what distributions are written with."""

from collections.abc import Callable
from typing import Any

import numpy as np

import pellucid as torch
from pellucid.core.tensor import Tensor

__all__ = [
    "broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits", "standard_normal",
    "sum_rightmost", "tril_matrix_to_vec", "vec_to_tril_matrix",
]  # fmt: skip

EULER = 0.5772156649015329


def broadcast_all(*values: Any) -> tuple[Any, ...]:
    """Numbers and tensors as tensors of one shape.

    >>> broadcast_all(1.0, torch.zeros(2))
    (tensor([1., 1.]), tensor([0., 0.]))
    """
    if not all(isinstance(value, (Tensor, int, float, np.number)) for value in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__."
        )
    like = next((value for value in values if isinstance(value, Tensor)), None)
    dtype = torch.get_default_dtype() if like is None else like.dtype
    tensors = [value if isinstance(value, Tensor) else torch.tensor(value, dtype=dtype) for value in values]
    return tuple(torch.broadcast_tensors(*tensors))


def standard_normal(shape: Any, dtype: Any) -> Any:
    """Normal numbers with mean 0 and deviation 1, drawn as PyTorch's distributions draw them."""
    return torch.normal(torch.zeros(shape, dtype=dtype), torch.ones(shape, dtype=dtype))


def _standard_normal(shape: Any, dtype: Any, device: Any = None) -> Any:
    """`standard_normal` under the name that libraries of distributions import."""
    return standard_normal(shape, dtype)


def sum_rightmost(value: Any, dimensions: int) -> Any:
    """The sum over so many dimensions on the right."""
    return value.reshape((*value.shape[: value.dim() - dimensions], -1)).sum(-1) if dimensions else value


_sum_rightmost = sum_rightmost  # PyTorch's name


def clamp_probs(probs: Any) -> Any:
    """Probabilities moved away from 0 and 1 by a rounding error."""
    eps = torch.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Any, is_binary: bool = False) -> Any:
    """Probabilities as logits; 0 and 1 are moved in by a rounding error so that the result is finite."""
    inside = clamp_probs(probs)
    return torch.log(inside) - torch.log1p(-inside) if is_binary else torch.log(inside)


def logits_to_probs(logits: Any, is_binary: bool = False) -> Any:
    """Logits as probabilities."""
    return torch.sigmoid(logits) if is_binary else torch.softmax(logits, -1)


class lazy_property:
    """A property that is worked out once, with gradients, and then kept as an attribute."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with torch.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.name, value)
        return value


def tril_matrix_to_vec(mat: Any, diag: int = 0) -> Any:
    """The lower triangle of a matrix, row by row, as a vector.

    >>> tril_matrix_to_vec(torch.tensor([[1.0, 0.0], [2.0, 3.0]]))
    tensor([1., 2., 3.])
    """
    n = mat.shape[-1]
    if diag < -n or diag >= n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    rows, columns = torch.tril_indices(n, n, diag)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Any, diag: int = 0) -> Any:
    """The matrix whose lower triangle, row by row, is a vector.

    >>> vec_to_tril_matrix(torch.tensor([1.0, 2.0, 3.0]))
    tensor([[1., 0.],
            [2., 3.]])
    """
    size = vec.shape[-1]
    n = (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * size + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    if round(n) - n > torch.finfo(vec.dtype).eps:
        raise ValueError(f"The size of last dimension is {size} which cannot be expressed as the lower triangular part")
    whole = round(n)
    rows, columns = torch.tril_indices(whole, whole, diag)
    matrix = vec.new_zeros((*vec.shape[:-1], whole, whole))
    matrix[..., rows, columns] = vec
    return matrix
