"""Distributions between two bounds."""

import math
from typing import Any, ClassVar

import pellucid as torch
from pellucid.distributions import constraints
from pellucid.distributions.combined import TransformedDistribution
from pellucid.distributions.counts import TwoWays
from pellucid.distributions.distribution import Distribution
from pellucid.distributions.exp_family import ExponentialFamily
from pellucid.distributions.simplex import Dirichlet
from pellucid.distributions.transforms import AffineTransform, PowerTransform
from pellucid.distributions.utils import EULER, broadcast_all, clamp_probs, lazy_property, logits_to_probs

__all__ = ["Beta", "ContinuousBernoulli", "Kumaraswamy", "Uniform"]


class Uniform(Distribution):
    """All values between two bounds are equally likely."""

    has_rsample = True

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)

    @property
    def arg_constraints(self) -> Any:  # type: ignore[override]
        """Each bound is on its side of the other."""
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:  # type: ignore[override]
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Any:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Any:
        return math.nan * self.high

    @property
    def stddev(self) -> Any:
        return (self.high - self.low) / math.sqrt(12)

    @property
    def variance(self) -> Any:
        return (self.high - self.low).pow(2) / 12

    def rsample(self, sample_shape: Any = ()) -> Any:
        u = torch.rand(self._extended_shape(sample_shape), dtype=self.low.dtype)
        return self.low + u * (self.high - self.low)

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        inside = (self.low.le(value) & self.high.gt(value)).to(self.low.dtype)
        return torch.log(inside) - torch.log(self.high - self.low)

    def cdf(self, value: Any) -> Any:
        self._checked(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Any) -> Any:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Any:
        return torch.log(self.high - self.low)


class Beta(ExponentialFamily):
    """A share between 0 and 1."""

    has_rsample = True
    support = constraints.unit_interval
    arg_constraints: ClassVar[Any] = {"concentration1": constraints.positive, "concentration0": constraints.positive}

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        if isinstance(concentration1, (int, float)) and isinstance(concentration0, (int, float)):
            both = torch.tensor([float(concentration1), float(concentration0)])
        else:
            both = torch.stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(both, validate_args=validate_args)
        super().__init__(self._dirichlet.batch_shape, validate_args=validate_args)

    @property
    def concentration1(self) -> Any:
        """The weight of 1."""
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Any:
        """The weight of 0."""
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self) -> Any:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Any:
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Any:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        return self._dirichlet.log_prob(torch.stack([value, 1.0 - value], -1))

    def entropy(self) -> Any:
        return self._dirichlet.entropy()

    @property
    def _natural_params(self) -> Any:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        return torch.lgamma(x) + torch.lgamma(y) - torch.lgamma(x + y)


class Kumaraswamy(TransformedDistribution):
    """Like Beta, with a cumulative form that can be inverted."""

    has_rsample = True
    support = constraints.unit_interval
    arg_constraints: ClassVar[Any] = {"concentration1": constraints.positive, "concentration0": constraints.positive}

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        low, high = torch.full_like(self.concentration0, 0), torch.full_like(self.concentration0, 1)
        steps = [
            PowerTransform(self.concentration0.reciprocal()), AffineTransform(1.0, -1.0),
            PowerTransform(self.concentration1.reciprocal()),
        ]  # fmt: skip
        super().__init__(Uniform(low, high, validate_args=validate_args), steps, validate_args)

    def _moment(self, n: int) -> Any:
        a, b = self.concentration1, self.concentration0
        value = 1 + n / a
        return torch.exp(torch.lgamma(value) + torch.lgamma(b) - torch.lgamma(value + b)) * b

    @property
    def mean(self) -> Any:
        return self._moment(1)

    @property
    def mode(self) -> Any:
        a, b = self.concentration1, self.concentration0
        log_mode = a.reciprocal() * (-b).log1p() - (-a * b).log1p()
        return torch.where((a < 1) | (b < 1), math.nan, log_mode.exp())

    @property
    def variance(self) -> Any:
        return self._moment(2) - self.mean.pow(2)

    def entropy(self) -> Any:
        a, b = self.concentration1, self.concentration0
        return (1 - 1 / b) + (1 - 1 / a) * (torch.digamma(b + 1) + EULER) - a.log() - b.log()


class ContinuousBernoulli(TwoWays, ExponentialFamily):
    """A number between 0 and 1 whose density is `probs**x * (1 - probs)**(1 - x)` up to a constant.

    Near `probs = 1/2`, between `lims`, the exact formulas divide 0 by 0: a Taylor series takes their place.
    """

    has_rsample = True
    support = constraints.unit_interval
    _mean_carrier_measure = 0

    def __init__(
        self, probs: Any = None, logits: Any = None, lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        self._take(probs, logits)
        self._lims = lims
        if probs is not None:
            if validate_args is not None and not bool(constraints.unit_interval.check(self.probs).all()):
                raise ValueError("The parameter probs has invalid values")
            self.probs = self._param = clamp_probs(self.probs)
        super().__init__(self._param.shape, validate_args=validate_args)

    @lazy_property
    def probs(self) -> Any:
        """The parameter."""
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _exact(self) -> Any:
        """Where the exact formulas hold."""
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut(self) -> Any:
        return torch.where(self._exact(), self.probs, self._lims[0])

    def _log_constant(self) -> Any:
        cut = self._cut()
        below = torch.where(cut <= 0.5, cut, torch.zeros_like(cut))
        above = torch.where(cut >= 0.5, cut, torch.ones_like(cut))
        size = torch.log(torch.abs(torch.log1p(-cut) - torch.log(cut)))
        exact = size - torch.where(cut <= 0.5, torch.log1p(-2.0 * below), torch.log(2.0 * above - 1.0))
        x = torch.pow(self.probs - 0.5, 2)
        return torch.where(self._exact(), exact, math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x)

    @property
    def mean(self) -> Any:
        cut, x = self._cut(), self.probs - 0.5
        exact = cut / (2.0 * cut - 1.0) + 1.0 / (torch.log1p(-cut) - torch.log(cut))
        return torch.where(self._exact(), exact, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * torch.pow(x, 2)) * x)

    @property
    def variance(self) -> Any:
        cut, x = self._cut(), torch.pow(self.probs - 0.5, 2)
        exact = cut * (cut - 1.0) / torch.pow(1.0 - 2.0 * cut, 2)
        exact = exact + 1.0 / torch.pow(torch.log1p(-cut) - torch.log(cut), 2)
        return torch.where(self._exact(), exact, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.icdf(torch.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype))

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        crossed = torch.nn.functional.binary_cross_entropy_with_logits(logits, value, reduction="none")
        return -crossed + self._log_constant()

    def cdf(self, value: Any) -> Any:
        self._checked(value)
        cut = self._cut()
        exact = (torch.pow(cut, value) * torch.pow(1.0 - cut, 1.0 - value) + cut - 1.0) / (2.0 * cut - 1.0)
        inside = torch.where(self._exact(), exact, value)
        upper = torch.where(torch.ge(value, 1.0), torch.ones_like(inside), inside)
        return torch.where(torch.le(value, 0.0), torch.zeros_like(inside), upper)

    def icdf(self, value: Any) -> Any:
        cut = self._cut()
        exact = torch.log1p(-cut + value * (2.0 * cut - 1.0)) - torch.log1p(-cut)
        return torch.where(self._exact(), exact / (torch.log(cut) - torch.log1p(-cut)), value)

    def entropy(self) -> Any:
        zero, one = torch.log1p(-self.probs), torch.log(self.probs)
        return self.mean * (zero - one) - self._log_constant() - zero

    @property
    def _natural_params(self) -> Any:
        return (self.logits,)

    def _log_normalizer(self, x: Any) -> Any:
        exact = (x <= self._lims[0] - 0.5) | (x > self._lims[1] - 0.5)
        cut = torch.where(exact, x, self._lims[0] - 0.5)
        near = 0.5 * x + torch.pow(x, 2) / 24.0 - torch.pow(x, 4) / 2880.0
        return torch.where(exact, torch.log(torch.abs(torch.special.expm1(cut))) - torch.log(torch.abs(cut)), near)
