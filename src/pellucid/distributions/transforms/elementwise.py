"""Transforms of single numbers."""

import math
from typing import Any

import pellucid as torch
from pellucid.distributions import constraints
from pellucid.distributions.transforms.transform import Transform, broadcast_shape
from pellucid.distributions.utils import broadcast_all, lazy_property

__all__ = [
    "AbsTransform", "AffineTransform", "CumulativeDistributionTransform", "ExpTransform", "PowerTransform",
    "SigmoidTransform", "SoftplusTransform", "TanhTransform",
]  # fmt: skip


class Plain(Transform):
    """A transform without parameters: two of a kind are equal."""

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, type(self))

    __hash__ = object.__hash__


class Growing(Plain):
    """An invertible transform by which larger numbers have larger images."""

    bijective = True
    domain: Any = constraints.real
    sign: Any = 1


class ExpTransform(Growing):
    """`exp(x)`.

    >>> import pellucid as torch
    >>> exp = torch.distributions.ExpTransform()
    >>> x = torch.tensor([0.0, 1.0])
    >>> exp(x), exp.inv(torch.tensor(1.0))
    (tensor([1.0000, 2.7183]), tensor(0.))
    >>> exp.log_abs_det_jacobian(x, exp(x))  # log of the slope of exp, which is x
    tensor([0., 1.])
    """

    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return x.exp()

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x


class SigmoidTransform(Growing):
    """`1 / (1 + exp(-x))`.

    >>> import pellucid as torch
    >>> sigmoid = torch.distributions.SigmoidTransform()
    >>> sigmoid(torch.tensor([-2.0, 0.0, 2.0]))
    tensor([0.1192, 0.5000, 0.8808])
    >>> sigmoid.inv(torch.tensor(0.5))
    tensor(0.)
    """

    codomain = constraints.unit_interval

    def _call(self, x: Any) -> Any:
        info = torch.finfo(x.dtype)
        return torch.clamp(torch.sigmoid(x), min=info.tiny, max=1.0 - info.eps)

    def _inverse(self, y: Any) -> Any:
        info = torch.finfo(y.dtype)
        y = y.clamp(min=info.tiny, max=1.0 - info.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -torch.nn.functional.softplus(-x) - torch.nn.functional.softplus(x)


class SoftplusTransform(Growing):
    """`log(1 + exp(x))`.

    >>> import pellucid as torch
    >>> softplus = torch.distributions.SoftplusTransform()
    >>> softplus(torch.tensor([-5.0, 0.0, 5.0]))  # positive, and nearly x where x is large
    tensor([0.0067, 0.6931, 5.0067])
    """

    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return torch.nn.functional.softplus(x)

    def _inverse(self, y: Any) -> Any:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -torch.nn.functional.softplus(-x)


class TanhTransform(Growing):
    """`tanh(x)`.

    >>> import pellucid as torch
    >>> tanh = torch.distributions.TanhTransform()
    >>> tanh(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.7616,  0.0000,  0.7616])
    >>> tanh.inv(torch.tensor(0.5))
    tensor(0.5493)
    """

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Any) -> Any:
        return x.tanh()

    def _inverse(self, y: Any) -> Any:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        # log(1 - tanh(x)^2), without the rounding of 1 - y^2 near 1
        return 2.0 * (math.log(2.0) - x - torch.nn.functional.softplus(-2.0 * x))


class AbsTransform(Plain):
    """`abs(x)`, whose inverse is the positive one.

    >>> import pellucid as torch
    >>> torch.distributions.AbsTransform()(torch.tensor([-2.0, 3.0]))
    tensor([2., 3.])
    """

    domain = constraints.real
    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return x.abs()

    def _inverse(self, y: Any) -> Any:
        return y


class PowerTransform(Transform):
    """`x ** exponent`.

    >>> import pellucid as torch
    >>> cube = torch.distributions.PowerTransform(3)
    >>> cube(torch.tensor([1.0, 2.0])), cube.inv(torch.tensor([1.0, 8.0]))
    (tensor([1., 8.]), tensor([1., 2.]))
    """

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        (self.exponent,) = broadcast_all(exponent)

    @lazy_property
    def sign(self) -> Any:  # type: ignore[override]
        return self.exponent.sign()

    def _call(self, x: Any) -> Any:
        return x.pow(self.exponent)

    def _inverse(self, y: Any) -> Any:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Any) -> Any:
        return broadcast_shape(shape, self.exponent)

    inverse_shape = forward_shape

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, PowerTransform) and bool(self.exponent.eq(other.exponent).all())

    __hash__ = object.__hash__


def _equal(one: Any, two: Any) -> bool:
    if isinstance(one, (int, float)) and isinstance(two, (int, float)):
        return one == two
    return bool(torch.as_tensor(one == two).all())


class AffineTransform(Transform):
    """`loc + scale * x`.

    >>> import pellucid as torch
    >>> scale = torch.distributions.AffineTransform(loc=1.0, scale=2.0)
    >>> scale(torch.tensor([0.0, 1.0])), scale.inv(torch.tensor([1.0, 3.0]))
    (tensor([1., 3.]), tensor([0., 1.]))
    """

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:  # type: ignore[override]
        return constraints.independent(constraints.real, self._event_dim) if self._event_dim else constraints.real

    codomain = domain

    @property
    def sign(self) -> Any:
        if isinstance(self.scale, (int, float)):
            return (self.scale > 0) - (self.scale < 0)
        return self.scale.sign()

    def _call(self, x: Any) -> Any:
        return self.loc + self.scale * x

    def _inverse(self, y: Any) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        if isinstance(self.scale, (int, float)):
            result = torch.full_like(x, math.log(abs(self.scale)))
        else:
            result = torch.abs(self.scale).log()
        if self._event_dim:
            result = result.expand(result.shape[: result.dim() - self._event_dim] + x.shape[-self._event_dim :])
            result = result.sum(tuple(range(-self._event_dim, 0)))
        return result.expand(x.shape[: x.dim() - self._event_dim])

    def forward_shape(self, shape: Any) -> Any:
        return broadcast_shape(shape, self.loc, self.scale)

    inverse_shape = forward_shape

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, AffineTransform) and _equal(self.loc, other.loc) and _equal(self.scale, other.scale)

    __hash__ = object.__hash__


class CumulativeDistributionTransform(Transform):
    """The cumulative probability of a distribution: its samples become uniform.

    >>> import pellucid as torch
    >>> normal = torch.distributions.Normal(0.0, 1.0)
    >>> torch.distributions.CumulativeDistributionTransform(normal)(torch.tensor([-2.0, 0.0, 2.0]))
    tensor([0.0228, 0.5000, 0.9772])
    """

    bijective = True
    codomain = constraints.unit_interval
    sign: Any = 1

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:  # type: ignore[override]
        return self.distribution.support

    def _call(self, x: Any) -> Any:
        return self.distribution.cdf(x)

    def _inverse(self, y: Any) -> Any:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return self.distribution.log_prob(x)
