"""Distances and similarities between the vectors of two tensors."""

from typing import Any

from pellucid.nn import functional
from pellucid.nn.modules.module import Module

__all__ = ["CosineSimilarity", "PairwiseDistance"]


class PairwiseDistance(Module):
    """The p-norm of the difference, along the last dimension.

    >>> import pellucid as torch
    >>> torch.nn.PairwiseDistance()(torch.tensor([[3.0, 0.0]]), torch.tensor([[0.0, 4.0]]))
    tensor([5.])
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Any, x2: Any) -> Any:
        """How far each vector is from its counterpart."""
        return functional.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """The cosine of the angle between vectors, along a dimension.

    >>> import pellucid as torch
    >>> torch.nn.CosineSimilarity(dim=0)(torch.tensor([1.0, 0.0]), torch.tensor([2.0, 0.0]))
    tensor(1.)
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Any, x2: Any) -> Any:
        """How far two vectors point in the same direction."""
        return functional.cosine_similarity(x1, x2, self.dim, self.eps)
