"""Distributions of real numbers."""

import math
from typing import Any, ClassVar

import pellucid as torch
from pellucid.distributions import constraints
from pellucid.distributions.distribution import Distribution, broadcast_all

__all__ = [
    "Beta", "Cauchy", "Chi2", "Dirichlet", "Exponential", "Gamma", "Gumbel", "HalfCauchy", "HalfNormal", "InverseGamma",
    "Kumaraswamy", "Laplace", "LogNormal", "Logistic", "Normal", "Pareto", "StudentT", "Uniform", "VonMises", "Weibull",
]  # fmt: skip

EULER = 0.5772156649015329
TINY = 1.1754943508222875e-38


class LocationScale(Distribution):
    """A standard distribution that is stretched by `scale` and moved by `loc`."""

    has_rsample = True
    support = constraints.real
    arg_constraints: ClassVar = {"loc": constraints.real, "scale": constraints.positive}

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    def _standardised(self, value: Any) -> Any:
        self._checked(value)
        return (value - self.loc) / self.scale


class Normal(LocationScale):
    """The normal distribution.

    >>> Normal(0.0, 1.0).log_prob(torch.tensor(0.0))
    tensor(-0.9189)
    """

    @property
    def stddev(self) -> Any:
        return self.scale

    @property
    def variance(self) -> Any:
        return self.scale.pow(2)

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        with torch.no_grad():
            return torch.normal(self.loc.expand(shape), self.scale.expand(shape))

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        noise = torch.normal(torch.zeros(shape, dtype=self.loc.dtype), torch.ones(shape, dtype=self.loc.dtype))
        return self.loc + noise * self.scale

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        return -((value - self.loc) ** 2) / (2 * self.scale**2) - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    def cdf(self, value: Any) -> Any:
        return 0.5 * (1 + torch.erf((self._standardised(value)) * math.sqrt(0.5)))

    def icdf(self, value: Any) -> Any:
        return self.loc + self.scale * torch.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Any:
        return 0.5 + 0.5 * math.log(2 * math.pi) + torch.log(self.scale)


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
        noise = self.loc.new_empty(self._extended_shape(sample_shape)).cauchy_()
        return self.loc + noise * self.scale

    def log_prob(self, value: Any) -> Any:
        z = self._standardised(value)
        return -math.log(math.pi) - self.scale.log() - (z**2).log1p()

    def cdf(self, value: Any) -> Any:
        return torch.atan(self._standardised(value)) / math.pi + 0.5

    def icdf(self, value: Any) -> Any:
        return torch.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Any:
        return math.log(4 * math.pi) + self.scale.log()


class Gumbel(LocationScale):
    """The largest of many."""

    @property
    def mean(self) -> Any:
        return self.loc + self.scale * EULER

    @property
    def variance(self) -> Any:
        return (math.pi / math.sqrt(6)) ** 2 * self.scale.pow(2)

    def rsample(self, sample_shape: Any = ()) -> Any:
        info = torch.finfo(self.loc.dtype)
        u = self.loc.new_empty(self._extended_shape(sample_shape)).uniform_(info.tiny, 1 - info.eps)
        return self.loc - self.scale * torch.log(-torch.log(u))

    def log_prob(self, value: Any) -> Any:
        z = -self._standardised(value)
        return (z - z.exp()) - self.scale.log()

    def cdf(self, value: Any) -> Any:
        return torch.exp(-torch.exp(-self._standardised(value)))

    def entropy(self) -> Any:
        return self.scale.log() + (1 + EULER)


class Logistic(LocationScale):
    """The distribution whose cumulative form is the sigmoid."""

    @property
    def variance(self) -> Any:
        return self.scale.pow(2) * (math.pi**2 / 3)

    def rsample(self, sample_shape: Any = ()) -> Any:
        info = torch.finfo(self.loc.dtype)
        u = self.loc.new_empty(self._extended_shape(sample_shape)).uniform_(info.tiny, 1 - info.eps)
        return self.loc + self.scale * (u.log() - (-u).log1p())

    def log_prob(self, value: Any) -> Any:
        z = self._standardised(value)
        return -z - self.scale.log() - 2 * torch.nn.functional.softplus(-z)

    def cdf(self, value: Any) -> Any:
        return torch.sigmoid(self._standardised(value))

    def entropy(self) -> Any:
        return self.scale.log() + 2


class Uniform(Distribution):
    """All values between two bounds are equally likely."""

    has_rsample = True
    arg_constraints: ClassVar = {"low": constraints.dependent, "high": constraints.dependent}

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)
        if self._validate_args and not bool((self.low < self.high).all()):
            raise ValueError("Uniform is not defined when low>= high")

    @property
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


class Exponential(Distribution):
    """How long one waits."""

    has_rsample = True
    support = constraints.nonnegative
    arg_constraints: ClassVar = {"rate": constraints.positive}

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Any:
        return torch.zeros_like(self.rate)

    @property
    def stddev(self) -> Any:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Any:
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.rate.new_empty(self._extended_shape(sample_shape)).exponential_() / self.rate

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Any) -> Any:
        self._checked(value)
        return 1 - torch.exp(-self.rate * value)

    def icdf(self, value: Any) -> Any:
        return -torch.log1p(-value) / self.rate

    def entropy(self) -> Any:
        return 1.0 - torch.log(self.rate)


class Gamma(Distribution):
    """Sums of waiting times."""

    has_rsample = True
    support = constraints.nonnegative
    arg_constraints: ClassVar = {"concentration": constraints.positive, "rate": constraints.positive}

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.concentration / self.rate

    @property
    def mode(self) -> Any:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Any:
        return self.concentration / self.rate.pow(2)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return (torch._standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)).clamp(min=TINY)

    def log_prob(self, value: Any) -> Any:
        value = torch.as_tensor(value, dtype=self.rate.dtype)
        self._checked(value)
        return (
            torch.xlogy(self.concentration, self.rate) + torch.xlogy(self.concentration - 1, value)
            - self.rate * value - torch.lgamma(self.concentration)
        )  # fmt: skip

    def cdf(self, value: Any) -> Any:
        self._checked(value)
        return torch.special.gammainc(self.concentration, self.rate * value)

    def entropy(self) -> Any:
        k = self.concentration
        return k - torch.log(self.rate) + torch.lgamma(k) + (1.0 - k) * torch.digamma(k)


class Chi2(Gamma):
    """The sum of so many squares of normal numbers."""

    arg_constraints: ClassVar = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        (half,) = broadcast_all(df)
        super().__init__(0.5 * half, 0.5, validate_args)

    @property
    def df(self) -> Any:
        """Degrees of freedom."""
        return self.concentration * 2


class Dirichlet(Distribution):
    """Shares that sum to 1.

    >>> Dirichlet(torch.tensor([2.0, 2.0])).mean
    tensor([0.5000, 0.5000])
    """

    has_rsample = True
    support = constraints.simplex
    arg_constraints: ClassVar = {"concentration": constraints.positive}

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)

    @property
    def mean(self) -> Any:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Any:
        above = (self.concentration - 1).clamp(min=0.0)
        corner = torch.nn.functional.one_hot(above.argmax(-1), above.shape[-1]).to(above)
        return torch.where((self.concentration < 1).all(-1, True), corner, above / above.sum(-1, True))

    @property
    def variance(self) -> Any:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Any:
        parts = torch._standard_gamma(self.concentration.expand(self._extended_shape(sample_shape)))
        parts = parts.clamp(min=TINY)
        return parts / parts.sum(-1, True)

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        k = self.concentration
        return torch.xlogy(k - 1.0, value).sum(-1) + torch.lgamma(k.sum(-1)) - torch.lgamma(k).sum(-1)

    def entropy(self) -> Any:
        k, size = self.concentration.size(-1), self.concentration
        total = size.sum(-1)
        return (
            torch.lgamma(size).sum(-1) - torch.lgamma(total) - (k - total) * torch.digamma(total)
            - ((size - 1.0) * torch.digamma(size)).sum(-1)
        )  # fmt: skip


class Beta(Distribution):
    """A share between 0 and 1."""

    has_rsample = True
    support = constraints.unit_interval
    arg_constraints: ClassVar = {"concentration1": constraints.positive, "concentration0": constraints.positive}

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        both = torch.stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(both, validate_args=validate_args)
        super().__init__(both.shape[:-1], validate_args=validate_args)

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

    def expand(self, batch_shape: Any, _instance: Any = None) -> "Beta":
        shape = torch.Size(batch_shape)
        return Beta(self.concentration1.expand(shape), self.concentration0.expand(shape), self._validate_args)

    def __repr__(self) -> str:
        return "Beta()"


class StudentT(Distribution):
    """Like a normal distribution whose deviation was estimated from few values."""

    has_rsample = True
    support = constraints.real
    arg_constraints: ClassVar = {
        "df": constraints.positive, "loc": constraints.real, "scale": constraints.positive,
    }  # fmt: skip

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return torch.where(self.df <= 1, math.nan, self.loc)

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        wide = torch.where(self.df > 1, math.inf, math.nan).to(self.df.dtype)
        return torch.where(self.df > 2, self.scale.pow(2) * self.df / (self.df - 2).clamp(min=TINY), wide)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        x = torch.normal(torch.zeros(shape, dtype=self.df.dtype), torch.ones(shape, dtype=self.df.dtype))
        z = self._chi2.rsample(sample_shape)
        return self.loc + self.scale * (x * torch.rsqrt(z / self.df))

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


class HalfNormal(Distribution):
    """The size of a normal number."""

    has_rsample = True
    support = constraints.nonnegative
    arg_constraints: ClassVar = {"scale": constraints.positive}
    base: ClassVar[Any] = Normal

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        (self.scale,) = broadcast_all(scale)
        self._whole = self.base(torch.zeros_like(self.scale), self.scale, validate_args=False)
        super().__init__(self.scale.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def mode(self) -> Any:
        return torch.zeros_like(self.scale)

    @property
    def variance(self) -> Any:
        return self.scale.pow(2) * (1 - 2 / math.pi)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self._whole.rsample(sample_shape).abs()

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        return torch.where(value >= 0, self._whole.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Any) -> Any:
        self._checked(value)
        return 2 * self._whole.cdf(value) - 1

    def icdf(self, value: Any) -> Any:
        return self._whole.icdf((value + 1) / 2)

    def entropy(self) -> Any:
        return self._whole.entropy() - math.log(2)


class HalfCauchy(HalfNormal):
    """The size of a Cauchy number."""

    base: ClassVar[Any] = Cauchy

    @property
    def mean(self) -> Any:
        return torch.full(self._extended_shape(), math.inf, dtype=self.scale.dtype)

    @property
    def variance(self) -> Any:
        return self._whole.variance


class LogNormal(Distribution):
    """A number whose logarithm is normal."""

    has_rsample = True
    support = constraints.positive
    arg_constraints: ClassVar = {"loc": constraints.real, "scale": constraints.positive}

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        self._normal = Normal(self.loc, self.scale, validate_args=validate_args)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return (self.loc + self.scale.pow(2) / 2).exp()

    @property
    def mode(self) -> Any:
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Any:
        square = self.scale.pow(2)
        return square.expm1() * (2 * self.loc + square).exp()

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self._normal.rsample(sample_shape).exp()

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        return self._normal.log_prob(value.log()) - value.log()

    def cdf(self, value: Any) -> Any:
        return self._normal.cdf(value.log())

    def entropy(self) -> Any:
        return self._normal.entropy() + self.loc


class InverseGamma(Distribution):
    """One over a gamma number."""

    has_rsample = True
    support = constraints.positive
    arg_constraints: ClassVar = {"concentration": constraints.positive, "rate": constraints.positive}

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        self._gamma = Gamma(self.concentration, self.rate, validate_args=validate_args)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return torch.where(self.concentration > 1, self.rate / (self.concentration - 1), math.inf)

    @property
    def mode(self) -> Any:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Any:
        k = self.concentration
        return torch.where(k > 2, self.rate.square() / ((k - 1).square() * (k - 2)), math.inf)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self._gamma.rsample(sample_shape).reciprocal()

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        return self._gamma.log_prob(value.reciprocal()) - 2 * value.log()

    def entropy(self) -> Any:
        k = self.concentration
        return k + self.rate.log() + k.lgamma() - (1 + k) * k.digamma()


class Weibull(Distribution):
    """How long things last."""

    has_rsample = True
    support = constraints.positive
    arg_constraints: ClassVar = {"scale": constraints.positive, "concentration": constraints.positive}

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        super().__init__(self.scale.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.scale * torch.exp(torch.lgamma(1 + 1 / self.concentration))

    @property
    def mode(self) -> Any:
        return self.scale * ((self.concentration - 1) / self.concentration) ** self.concentration.reciprocal()

    @property
    def variance(self) -> Any:
        one, two = (torch.lgamma(1 + n / self.concentration) for n in (1, 2))
        return self.scale.pow(2) * (torch.exp(two) - torch.exp(2 * one))

    def rsample(self, sample_shape: Any = ()) -> Any:
        waited = self.scale.new_empty(self._extended_shape(sample_shape)).exponential_()
        return self.scale * waited.pow(1 / self.concentration)

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        k, share = self.concentration, value / self.scale
        return k.log() - self.scale.log() + (k - 1) * share.log() - share.pow(k)

    def entropy(self) -> Any:
        inverse = 1 / self.concentration
        return EULER * (1 - inverse) + torch.log(self.scale * inverse) + 1


class Pareto(Distribution):
    """Few have much."""

    has_rsample = True
    arg_constraints: ClassVar = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        super().__init__(self.scale.shape, validate_args=validate_args)

    @property
    def support(self) -> Any:  # type: ignore[override]
        return constraints.Constraint("GreaterThanEq", lambda value: value >= self.scale)

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

    def rsample(self, sample_shape: Any = ()) -> Any:
        waited = self.scale.new_empty(self._extended_shape(sample_shape)).exponential_()
        return self.scale * (waited / self.alpha).exp()

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        return self.alpha.log() + self.alpha * self.scale.log() - (self.alpha + 1) * value.log()

    def entropy(self) -> Any:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class Kumaraswamy(Distribution):
    """Like Beta, with a cumulative form that can be inverted."""

    has_rsample = True
    support = constraints.unit_interval
    arg_constraints: ClassVar = {"concentration1": constraints.positive, "concentration0": constraints.positive}

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        super().__init__(self.concentration1.shape, validate_args=validate_args)

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
        return torch.where((a < 1) | (b < 1), math.nan, ((a - 1) / (a * b - 1)) ** (1 / a))

    @property
    def variance(self) -> Any:
        return self._moment(2) - self.mean.pow(2)

    def rsample(self, sample_shape: Any = ()) -> Any:
        info = torch.finfo(self.concentration1.dtype)
        u = self.concentration1.new_empty(self._extended_shape(sample_shape)).uniform_(info.tiny, 1 - info.eps)
        return (1 - u.pow(1 / self.concentration0)).pow(1 / self.concentration1)

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        a, b = self.concentration1, self.concentration0
        return a.log() + b.log() + (a - 1) * value.log() + (b - 1) * torch.log1p(-value.pow(a))

    def entropy(self) -> Any:
        a, b = self.concentration1, self.concentration0
        return (1 - 1 / b) + (1 - 1 / a) * (torch.digamma(b + 1) + EULER) - a.log() - b.log()


class VonMises(Distribution):
    """Directions: a normal distribution on the circle."""

    support = constraints.real
    arg_constraints: ClassVar = {"loc": constraints.real, "concentration": constraints.positive}

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        k = self.concentration
        return 1 - torch.special.i1e(k) / torch.special.i0e(k)

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        k = self.concentration
        return k * torch.cos(value - self.loc) - math.log(2 * math.pi) - torch.special.i0e(k).log() - k
