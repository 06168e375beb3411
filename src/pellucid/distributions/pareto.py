"""Few have much: distributions whose tail is a power."""

from typing import Any, ClassVar

import pellucid as torch
from pellucid.distributions import constraints
from pellucid.distributions.combined import TransformedDistribution
from pellucid.distributions.gamma import Exponential
from pellucid.distributions.located import Located
from pellucid.distributions.transforms import AffineTransform, ExpTransform
from pellucid.distributions.utils import broadcast_all

__all__ = ["GeneralizedPareto", "Pareto"]


class Pareto(TransformedDistribution):
    """Values from `scale` on, with a density that falls as `value ** (-alpha - 1)`."""

    arg_constraints: ClassVar[Any] = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        super().__init__(base, [ExpTransform(), AffineTransform(0, self.scale)], validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Any:
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Any:
        return self.scale

    @property
    def variance(self) -> Any:
        a = self.alpha.clamp(min=2)
        return self.scale.pow(2) * a / ((a - 1).pow(2) * (a - 2))

    def entropy(self) -> Any:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class GeneralizedPareto(Located):
    """What exceeds a high threshold: exponential for concentration 0, a power's tail above, bounded below.

    >>> GeneralizedPareto(0.0, 1.0, 0.5).mean
    tensor(2.)
    """

    has_rsample = True
    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real,
    }  # fmt: skip

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:  # type: ignore[override]
        end = torch.where(self.concentration < 0, self.loc - self.scale / self.concentration, torch.inf)
        return constraints.interval(self.loc, end)

    def _plain(self) -> Any:
        """Where the concentration is 0 but for rounding, and which one to divide by elsewhere."""
        plain = torch.isclose(self.concentration, torch.zeros_like(self.concentration))
        return plain, torch.where(plain, torch.ones_like(self.concentration), self.concentration)

    @property
    def mean(self) -> Any:
        k = torch.where(self.concentration < 1, self.concentration, torch.nan)
        return self.loc + self.scale / (1 - k)

    @property
    def variance(self) -> Any:
        k = torch.where(self.concentration < 0.5, self.concentration, torch.nan)
        return self.scale**2 / ((1 - k) ** 2 * (1 - 2 * k))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.icdf(torch.rand(self._extended_shape(sample_shape), dtype=self.loc.dtype))

    def _standardised(self, value: Any) -> Any:
        self._checked(value)
        return (value - self.loc) / self.scale

    def log_prob(self, value: Any) -> Any:
        z = self._standardised(value)
        plain, k = self._plain()
        return -self.scale.log() + torch.where(plain, -z, -(1 / k + 1) * torch.log1p(k * z))

    def log_survival_function(self, value: Any) -> Any:
        """The logarithm of the probability of larger values."""
        z = self._standardised(value)
        plain, k = self._plain()
        return torch.where(plain, -z, -torch.log1p(k * z) / k)

    def log_cdf(self, value: Any) -> Any:
        """The logarithm of the probability of values up to this one."""
        return torch.log1p(-self.log_survival_function(value).exp())

    def cdf(self, value: Any) -> Any:
        return torch.exp(self.log_cdf(value))

    def icdf(self, value: Any) -> Any:
        plain, k = self._plain()
        left = torch.log1p(-value)
        return self.loc + self.scale * torch.where(plain, -left, torch.expm1(-k * left) / k)

    def entropy(self) -> Any:
        return torch.log(self.scale) + self.concentration + 1
