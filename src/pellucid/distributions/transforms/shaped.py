"""Transforms of vectors and matrices."""

import math
from typing import Any

import pellucid as torch
from pellucid.distributions import constraints
from pellucid.distributions.transforms.elementwise import Plain
from pellucid.distributions.transforms.transform import Transform
from pellucid.distributions.utils import tril_matrix_to_vec, vec_to_tril_matrix

__all__ = [
    "CorrCholeskyTransform", "LowerCholeskyTransform", "PositiveDefiniteTransform", "ReshapeTransform",
    "SoftmaxTransform", "StickBreakingTransform",
]  # fmt: skip


def _too_small(shape: Any, dimensions: int) -> None:
    if len(shape) < dimensions:
        raise ValueError("Too few dimensions on input")


class SoftmaxTransform(Plain):
    """softmax over the last dimension; its inverse is one of many.

    >>> import pellucid as torch
    >>> torch.distributions.SoftmaxTransform()(torch.tensor([0.0, 1.0, 2.0]))
    tensor([0.0900, 0.2447, 0.6652])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Any) -> Any:
        probs = (x - x.max(-1, True)[0]).exp()
        return probs / probs.sum(-1, True)

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def forward_shape(self, shape: Any) -> Any:
        _too_small(shape, 1)
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(Plain):
    """Vectors as shares that sum to 1: each takes a part of what is left, and the last takes the rest.

    >>> import pellucid as torch
    >>> shares = torch.distributions.StickBreakingTransform()(torch.tensor([0.0, 0.0, 0.0]))
    >>> shares, shares.sum()
    (tensor([0.2500, 0.2500, 0.2500, 0.2500]), tensor(1.))
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def _offset(self, vector: Any) -> Any:
        size = vector.shape[-1]
        return (size + 1 - vector.new_ones(size).cumsum(-1)).log()

    def _call(self, x: Any) -> Any:
        taken = torch.sigmoid(x - self._offset(x))
        left = (1 - taken).cumprod(-1)
        pad = torch.nn.functional.pad
        return pad(taken, (0, 1), value=1) * pad(left, (1, 0), value=1)

    def _inverse(self, y: Any) -> Any:
        taken = y[..., :-1]
        left = (1 - taken.cumsum(-1)).clamp(min=torch.finfo(y.dtype).tiny)
        return taken.log() - left.log() + self._offset(taken)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        x = x - self._offset(x)
        return (-x + torch.nn.functional.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        _too_small(shape, 1)
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: Any) -> Any:
        _too_small(shape, 1)
        return (*shape[:-1], shape[-1] - 1)


class LowerCholeskyTransform(Plain):
    """A matrix without constraints as a lower triangular one with a positive diagonal.

    >>> import pellucid as torch
    >>> torch.distributions.LowerCholeskyTransform()(torch.tensor([[0.0, 5.0], [2.0, 1.0]]))
    tensor([[1.0000, 0.0000],
            [2.0000, 2.7183]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Any) -> Any:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Any) -> Any:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(Plain):
    """A matrix without constraints as a positive definite one.

    >>> import pellucid as torch
    >>> matrix = torch.distributions.PositiveDefiniteTransform()(torch.tensor([[0.0, 5.0], [2.0, 0.0]]))
    >>> matrix
    tensor([[1., 2.],
            [2., 5.]])
    >>> torch.linalg.eigvalsh(matrix) > 0
    tensor([True, True])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Any) -> Any:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Any) -> Any:
        return LowerCholeskyTransform().inv(torch.linalg.cholesky(y))


class CorrCholeskyTransform(Transform):
    """A vector as the Cholesky factor of a matrix of correlations: row by row, the stick of length 1 is broken.

    >>> import pellucid as torch
    >>> factor = torch.distributions.CorrCholeskyTransform()(torch.tensor([0.5]))
    >>> factor @ factor.mT  # ones on the diagonal, tanh(0.5) beside it
    tensor([[1.0000, 0.4621],
            [0.4621, 1.0000]])
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Any) -> Any:
        eps = torch.finfo(x.dtype).eps
        partial = vec_to_tril_matrix(torch.tanh(x).clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - partial**2).sqrt().cumprod(-1)
        partial = partial + torch.eye(partial.shape[-1], dtype=partial.dtype)
        return partial * torch.nn.functional.pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Any) -> Any:
        left = 1 - torch.cumsum(y * y, dim=-1)
        before = torch.nn.functional.pad(left[..., :-1], [1, 0], value=1)
        partial = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(before, diag=-1).sqrt()
        return (partial.log1p() - partial.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x: Any, y: Any, intermediates: Any = None) -> Any:
        left = 1 - (y * y).cumsum(dim=-1)
        stick = 0.5 * tril_matrix_to_vec(left, diag=-2).log().sum(-1)
        tanh = -2 * (x + torch.nn.functional.softplus(-2 * x) - math.log(2.0)).sum(dim=-1)
        return stick + tanh

    def forward_shape(self, shape: Any) -> Any:
        _too_small(shape, 1)
        size = round((0.25 + 2 * shape[-1]) ** 0.5 + 0.5)
        if size * (size - 1) // 2 != shape[-1]:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return (*shape[:-1], size, size)

    def inverse_shape(self, shape: Any) -> Any:
        _too_small(shape, 2)
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return (*shape[:-2], shape[-1] * (shape[-1] - 1) // 2)


class ReshapeTransform(Transform):
    """The rightmost dimensions in another shape.

    >>> import pellucid as torch
    >>> torch.distributions.ReshapeTransform((4,), (2, 2))(torch.arange(4.0))
    tensor([[0., 1.],
            [2., 3.]])
    """

    bijective = True

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = torch.Size(in_shape), torch.Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size)

    @constraints.dependent_property
    def domain(self) -> Any:  # type: ignore[override]
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self) -> Any:  # type: ignore[override]
        return constraints.independent(constraints.real, len(self.out_shape))

    def _call(self, x: Any) -> Any:
        return x.reshape(x.shape[: x.dim() - len(self.in_shape)] + self.out_shape)

    def _inverse(self, y: Any) -> Any:
        return y.reshape(y.shape[: y.dim() - len(self.out_shape)] + self.in_shape)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def _swapped(self, shape: Any, old: Any, new: Any) -> Any:
        _too_small(shape, len(old))
        cut = len(shape) - len(old)
        if tuple(shape[cut:]) != tuple(old):
            raise ValueError(f"Shape mismatch: expected {shape[cut:]} but got {old}")
        return shape[:cut] + new

    def forward_shape(self, shape: Any) -> Any:
        return self._swapped(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._swapped(shape, self.out_shape, self.in_shape)
