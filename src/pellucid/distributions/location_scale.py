"""Distributions that are stretched by `scale` and moved by `loc`: Laplace, Cauchy, Gumbel, Student's t."""

import math
from typing import Any, ClassVar

import pellucid as torch
from pellucid.distributions import constraints
from pellucid.distributions.combined import TransformedDistribution
from pellucid.distributions.gamma import Chi2
from pellucid.distributions.interval import Uniform
from pellucid.distributions.located import Located, LocationScale
from pellucid.distributions.normal import Folded
from pellucid.distributions.transforms import AffineTransform, ExpTransform
from pellucid.distributions.utils import EULER, broadcast_all, standard_normal

__all__ = ["Cauchy", "Gumbel", "HalfCauchy", "Laplace", "StudentT"]


class Laplace(LocationScale):
    """Two exponential distributions back to back."""

    @property
    def variance(self) -> Any:
        return 2 * self.scale.pow(2)

    @property
    def stddev(self) -> Any:
        return math.sqrt(2) * self.scale

    def rsample(self, sample_shape: Any = ()) -> Any:
        low = torch.finfo(self.loc.dtype).eps - 1
        u = self.loc.new_empty(self._extended_shape(sample_shape)).uniform_(low, 1)
        return self.loc - self.scale * u.sign() * torch.log1p(-u.abs())

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        return -torch.log(2 * self.scale) - torch.abs(value - self.loc) / self.scale

    def cdf(self, value: Any) -> Any:
        self._checked(value)
        away = value - self.loc
        return 0.5 - 0.5 * away.sign() * torch.expm1(-away.abs() / self.scale)

    def icdf(self, value: Any) -> Any:
        term = value - 0.5
        return self.loc - self.scale * term.sign() * torch.log1p(-2 * term.abs())

    def entropy(self) -> Any:
        return 1 + torch.log(2 * self.scale)


class Cauchy(LocationScale):
    """Heavy tails: it has no mean."""

    @property
    def mean(self) -> Any:
        return torch.full(self._extended_shape(), math.nan, dtype=self.loc.dtype)

    @property
    def variance(self) -> Any:
        return torch.full(self._extended_shape(), math.inf, dtype=self.loc.dtype)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.loc + self.loc.new_empty(self._extended_shape(sample_shape)).cauchy_() * self.scale

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        return -math.log(math.pi) - self.scale.log() - (((value - self.loc) / self.scale) ** 2).log1p()

    def cdf(self, value: Any) -> Any:
        self._checked(value)
        return torch.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value: Any) -> Any:
        return torch.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Any:
        return math.log(4 * math.pi) + self.scale.log()


class HalfCauchy(Folded):
    """The size of a Cauchy number."""

    whole = Cauchy

    @property
    def mean(self) -> Any:
        return torch.full(self._extended_shape(), math.inf, dtype=self.scale.dtype)

    @property
    def variance(self) -> Any:
        return self.base_dist.variance

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        value = torch.as_tensor(value, dtype=self.scale.dtype)
        density = math.log(2 / math.pi) - self.scale.log() - (value / self.scale).pow(2).log1p()
        return torch.where(value >= 0, density, -math.inf)


class Gumbel(TransformedDistribution):
    """The largest of many."""

    support = constraints.real
    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        info = torch.finfo(self.loc.dtype)
        low, high = torch.full_like(self.loc, info.tiny), torch.full_like(self.loc, 1 - info.eps)
        turned = AffineTransform(0, torch.full_like(self.scale, -1))
        steps = [ExpTransform().inv, turned, ExpTransform().inv, AffineTransform(self.loc, -self.scale)]
        super().__init__(Uniform(low, high, validate_args=validate_args), steps, validate_args)

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        y = (self.loc - value) / self.scale
        return (y - y.exp()) - self.scale.log()

    @property
    def mean(self) -> Any:
        return self.loc + self.scale * EULER

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def stddev(self) -> Any:
        return (math.pi / math.sqrt(6)) * self.scale

    @property
    def variance(self) -> Any:
        return self.stddev.pow(2)

    def entropy(self) -> Any:
        return self.scale.log() + (1 + EULER)


class StudentT(Located):
    """Like a normal distribution whose deviation was estimated from few values."""

    has_rsample = True
    support = constraints.real
    arg_constraints: ClassVar[Any] = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return torch.where(self.df <= 1, math.nan, self.loc)

    @property
    def variance(self) -> Any:
        wide = torch.where(self.df > 1, math.inf, math.nan).to(self.df.dtype)
        finite = self.scale.pow(2) * self.df / torch.where(self.df > 2, self.df - 2, 1.0)
        return torch.where(self.df > 2, finite, wide)

    def rsample(self, sample_shape: Any = ()) -> Any:
        noise = standard_normal(self._extended_shape(sample_shape), self.df.dtype)
        spread = self._chi2.rsample(sample_shape)
        return self.loc + self.scale * (noise * torch.rsqrt(spread / self.df))

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        y = (value - self.loc) / self.scale
        size = (
            self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi)
            + torch.lgamma(0.5 * self.df) - torch.lgamma(0.5 * (self.df + 1.0))
        )  # fmt: skip
        return -0.5 * (self.df + 1.0) * torch.log1p(y**2.0 / self.df) - size

    def entropy(self) -> Any:
        beta = torch.lgamma(0.5 * self.df) + math.lgamma(0.5) - torch.lgamma(0.5 * (self.df + 1))
        change = torch.digamma(0.5 * (self.df + 1)) - torch.digamma(0.5 * self.df)
        return self.scale.log() + 0.5 * (self.df + 1) * change + 0.5 * self.df.log() + beta
