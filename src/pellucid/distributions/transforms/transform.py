"""Transform: what all transforms have in common, and the inverse of one."""

import copy
import weakref
from typing import Any

import pellucid as torch
from pellucid.distributions import constraints

__all__ = ["Transform"]


class Transform:
    """A function from `domain` to `codomain`: write `_call`, `_inverse` and `log_abs_det_jacobian`.

    With `cache_size=1` the last value and its image are remembered, so that inverting it costs nothing and is exact.

    >>> import pellucid as torch
    >>> class Doubling(torch.distributions.Transform):
    ...     bijective = True
    ...     domain = codomain = torch.distributions.constraints.real
    ...     def _call(self, x): return 2 * x
    ...     def _inverse(self, y): return y / 2
    ...     def log_abs_det_jacobian(self, x, y): return torch.full_like(x, 2.0).log()
    >>> double = Doubling()
    >>> double(torch.tensor(3.0)), double.inv(torch.tensor(6.0))
    (tensor(6.), tensor(3.))
    >>> wide = torch.distributions.TransformedDistribution(torch.distributions.Uniform(0.0, 1.0), [double])
    >>> wide.log_prob(torch.tensor(1.5)).exp()  # twice as wide, so half as dense
    tensor(0.5000)
    """

    bijective: Any = False
    domain: Any
    codomain: Any

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._inv: Any = None
        self._cached_x_y: tuple[Any, Any] = (None, None)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_inv": None}  # a weak reference cannot be pickled, and is made again when asked for

    @property
    def event_dim(self) -> Any:
        """How many dimensions on the right are one value, where both sides agree."""
        if self.domain.event_dim != self.codomain.event_dim:
            raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")
        return self.domain.event_dim

    @property
    def inv(self) -> Any:
        """The transform the other way round."""
        inverse = None if self._inv is None else self._inv()
        if inverse is None:
            inverse = _InverseTransform(self)
            self._inv = weakref.ref(inverse)
        return inverse

    @property
    def sign(self) -> Any:
        """1 if larger values have larger images, -1 if smaller ones, for transforms of single numbers."""
        raise NotImplementedError

    def with_cache(self, cache_size: int = 1) -> Any:
        """The same transform with a cache of this size."""
        if self._cache_size == cache_size:
            return self
        other = copy.copy(self)
        other._cache_size, other._cached_x_y, other._inv = cache_size, (None, None), None
        return other

    def __call__(self, x: Any) -> Any:
        if self._cache_size == 0:
            return self._call(x)
        if x is not self._cached_x_y[0]:
            self._cached_x_y = (x, self._call(x))
        return self._cached_x_y[1]

    def _inv_call(self, y: Any) -> Any:
        if self._cache_size == 0:
            return self._inverse(y)
        if y is not self._cached_x_y[1]:
            self._cached_x_y = (self._inverse(y), y)
        return self._cached_x_y[0]

    def _call(self, x: Any) -> Any:
        raise NotImplementedError

    def _inverse(self, y: Any) -> Any:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The logarithm of how much volume grows."""
        raise NotImplementedError

    def forward_shape(self, shape: Any) -> Any:
        """The shape of the image of a value of this shape."""
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """The shape of a value whose image has this shape."""
        return shape

    def __eq__(self, other: Any) -> bool:
        return self is other

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _InverseTransform(Transform):
    """A transform the other way round."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(transform._cache_size)
        self._forward = transform

    @constraints.dependent_property
    def domain(self) -> Any:  # type: ignore[override]
        return self._forward.codomain

    @constraints.dependent_property
    def codomain(self) -> Any:  # type: ignore[override]
        return self._forward.domain

    @property
    def bijective(self) -> Any:  # type: ignore[override]
        return self._forward.bijective

    @property
    def sign(self) -> Any:
        return self._forward.sign

    @property
    def inv(self) -> Transform:
        return self._forward

    def with_cache(self, cache_size: int = 1) -> Any:
        return self.inv.with_cache(cache_size).inv

    def __call__(self, x: Any) -> Any:
        return self._forward._inv_call(x)

    def _inv_call(self, y: Any) -> Any:
        return self._forward(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -self._forward.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Any) -> Any:
        return self._forward.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._forward.forward_shape(shape)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, _InverseTransform) and self._forward == other._forward

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._forward!r})"


def broadcast_shape(shape: Any, *parameters: Any) -> Any:
    """The shape of a value that meets the parameters of a transform."""
    return torch.broadcast_shapes(shape, *(getattr(parameter, "shape", ()) for parameter in parameters))
