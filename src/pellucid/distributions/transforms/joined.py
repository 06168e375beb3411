"""Several transforms side by side, each for its slice of a dimension."""

from collections.abc import Sequence
from typing import Any

import pellucid as torch
from pellucid.distributions import constraints
from pellucid.distributions.transforms.transform import Transform
from pellucid.distributions.utils import sum_rightmost

__all__ = ["CatTransform", "StackTransform"]


class SideBySide(Transform):
    """Several transforms along a dimension."""

    def __init__(self, tseq: Sequence[Transform], dim: int, cache_size: int) -> None:
        if not all(isinstance(transform, Transform) for transform in tseq):
            raise AssertionError("All elements of tseq must be Transform instances")
        super().__init__(cache_size)
        self.transforms = [transform.with_cache(cache_size) for transform in tseq] if cache_size else list(tseq)
        self.dim = dim

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(transform.bijective for transform in self.transforms)

    def _fitting(self, value: Any) -> None:
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError(f"dim {self.dim} out of range for tensor with {value.dim()} dimensions")


class CatTransform(SideBySide):
    """Transforms of the parts, of given lengths, of a dimension.

    >>> from pellucid.distributions.transforms import ExpTransform, identity_transform
    >>> CatTransform([ExpTransform(), identity_transform], lengths=[1, 2])(torch.zeros(3))
    tensor([1., 0., 0.])
    """

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError("lengths must match the transforms")

    @property
    def event_dim(self) -> int:
        return max(transform.event_dim for transform in self.transforms)

    @property
    def length(self) -> int:
        """The length of the dimension."""
        return sum(self.lengths)

    @constraints.dependent_property
    def domain(self) -> Any:  # type: ignore[override]
        return constraints.cat([transform.domain for transform in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Any:  # type: ignore[override]
        return constraints.cat([transform.codomain for transform in self.transforms], self.dim, self.lengths)

    def _parts(self, value: Any) -> Any:
        self._fitting(value)
        if value.size(self.dim) != self.length:
            raise AssertionError(f"Expected size {self.length} in dim {self.dim}, got {value.size(self.dim)}")
        return value.split(self.lengths, self.dim)

    def _call(self, x: Any) -> Any:
        return torch.cat([t(part) for t, part in zip(self.transforms, self._parts(x), strict=True)], self.dim)

    def _inverse(self, y: Any) -> Any:
        return torch.cat([t.inv(part) for t, part in zip(self.transforms, self._parts(y), strict=True)], self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        events, terms = self.event_dim, []
        for transform, before, after in zip(self.transforms, self._parts(x), self._parts(y), strict=True):
            term = transform.log_abs_det_jacobian(before, after)
            terms.append(sum_rightmost(term, max(events - transform.event_dim, 0)))
        dim = (self.dim - x.dim() if self.dim >= 0 else self.dim) + events
        return torch.cat(terms, dim=dim) if dim < 0 else sum(terms[1:], terms[0])

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)


class StackTransform(SideBySide):
    """One transform for each index of a dimension.

    >>> import pellucid as torch
    >>> exp, line = torch.distributions.ExpTransform(), torch.distributions.AffineTransform(0.0, 10.0)
    >>> both = torch.distributions.StackTransform([exp, line], dim=1)
    >>> both(torch.tensor([[0.0, 1.0], [0.0, 2.0]]))  # exp of the first column, ten times the second
    tensor([[ 1., 10.],
            [ 1., 20.]])
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)

    @constraints.dependent_property
    def domain(self) -> Any:  # type: ignore[override]
        return constraints.stack([transform.domain for transform in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Any:  # type: ignore[override]
        return constraints.stack([transform.codomain for transform in self.transforms], self.dim)

    def _slices(self, value: Any) -> Any:
        self._fitting(value)
        if value.size(self.dim) != len(self.transforms):
            raise AssertionError(f"Expected {len(self.transforms)} slices, got {value.size(self.dim)}")
        return value.unbind(self.dim)

    def _call(self, x: Any) -> Any:
        return torch.stack([t(part) for t, part in zip(self.transforms, self._slices(x), strict=True)], self.dim)

    def _inverse(self, y: Any) -> Any:
        return torch.stack([t.inv(part) for t, part in zip(self.transforms, self._slices(y), strict=True)], self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        each = zip(self.transforms, self._slices(x), self._slices(y), strict=True)
        return torch.stack([t.log_abs_det_jacobian(before, after) for t, before, after in each], self.dim)

    def with_cache(self, cache_size: int = 1) -> Any:
        return self if self._cache_size == cache_size else StackTransform(self.transforms, self.dim, cache_size)
