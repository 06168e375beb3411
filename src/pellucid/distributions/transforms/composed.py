"""Transforms one after the other, and of several dimensions at once."""

import weakref
from typing import Any

import pellucid as torch
from pellucid.distributions import constraints
from pellucid.distributions.transforms.transform import Transform
from pellucid.distributions.utils import lazy_property, sum_rightmost

__all__ = ["ComposeTransform", "IndependentTransform", "identity_transform"]


def widened(constraint: Any, events: int) -> Any:
    """The constraint for values of so many dimensions."""
    return constraints.independent(constraint, events - constraint.event_dim) if events > constraint.event_dim else (
        constraint
    )  # fmt: skip


class ComposeTransform(Transform):
    """Transforms one after the other, the first one first.

    >>> import pellucid as torch
    >>> line, exp = torch.distributions.AffineTransform(1.0, 2.0), torch.distributions.ExpTransform()
    >>> torch.distributions.ComposeTransform([line, exp])(torch.tensor(0.0))  # exp(1 + 2 * 0)
    tensor(2.7183)
    """

    def __init__(self, parts: list[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else parts

    @constraints.dependent_property
    def domain(self) -> Any:  # type: ignore[override]
        if not self.parts:
            return constraints.real
        events = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            events = max(events + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim)
        return widened(self.parts[0].domain, events)

    @constraints.dependent_property
    def codomain(self) -> Any:  # type: ignore[override]
        if not self.parts:
            return constraints.real
        events = self.parts[0].domain.event_dim
        for part in self.parts:
            events = max(events + part.codomain.event_dim - part.domain.event_dim, part.codomain.event_dim)
        return widened(self.parts[-1].codomain, events)

    @lazy_property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(part.bijective for part in self.parts)

    @lazy_property
    def sign(self) -> Any:  # type: ignore[override]
        sign: Any = 1
        for part in self.parts:
            sign = sign * part.sign
        return sign

    @property
    def inv(self) -> Any:
        inverse = None if self._inv is None else self._inv()
        if inverse is None:
            inverse = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv, inverse._inv = weakref.ref(inverse), weakref.ref(self)
        return inverse

    def with_cache(self, cache_size: int = 1) -> Any:
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size)

    def __call__(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        return x

    def _inv_call(self, y: Any) -> Any:
        for part in reversed(self.parts):
            y = part._inv_call(y)
        return y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        if not self.parts:
            return torch.zeros_like(x)
        events, terms = self.domain.event_dim, []
        for part in self.parts[:-1]:
            image = part(x)
            terms.append(sum_rightmost(part.log_abs_det_jacobian(x, image), events - part.domain.event_dim))
            events += part.codomain.event_dim - part.domain.event_dim
            x = image
        last = self.parts[-1]
        total = sum_rightmost(last.log_abs_det_jacobian(x, y), events - last.domain.event_dim)
        for term in reversed(terms):
            total = total + term
        return total

    def forward_shape(self, shape: Any) -> Any:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}(\n    " + ",\n    ".join(repr(part) for part in self.parts) + "\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform of single values, counted as one transform of so many more dimensions.

    >>> import pellucid as torch
    >>> exp, x = torch.distributions.ExpTransform(), torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> exp.log_abs_det_jacobian(x, exp(x)).shape
    torch.Size([2, 2])
    >>> rows = torch.distributions.IndependentTransform(exp, 1)  # a row counts as one value
    >>> rows.log_abs_det_jacobian(x, rows(x))
    tensor([3., 7.])
    """

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @constraints.dependent_property
    def domain(self) -> Any:  # type: ignore[override]
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property
    def codomain(self) -> Any:  # type: ignore[override]
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> Any:  # type: ignore[override]
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size)

    def _call(self, x: Any) -> Any:
        if x.dim() < self.domain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform(x)

    def _inverse(self, y: Any) -> Any:
        if y.dim() < self.codomain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Any) -> Any:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"
