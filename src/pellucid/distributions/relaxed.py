"""Choices made soft: samples between the corners that come closer to them as the temperature falls."""

from typing import Any, ClassVar

import pellucid as torch
from pellucid.distributions import constraints
from pellucid.distributions.continuous import TINY, Gamma, Normal
from pellucid.distributions.discrete import Categorical, TwoWays
from pellucid.distributions.distribution import Distribution, broadcast_all
from pellucid.distributions.multivariate import TransformedDistribution
from pellucid.distributions.transforms import ExpTransform, SigmoidTransform, StickBreakingTransform

__all__ = [
    "ExpRelaxedCategorical", "FisherSnedecor", "LogisticNormal", "LogitRelaxedBernoulli", "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
]  # fmt: skip


def inside(probs: Any) -> Any:
    """Probabilities moved away from 0 and 1 by a rounding error."""
    eps = torch.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


class LogitRelaxedBernoulli(TwoWays):
    """The logit of a soft coin."""

    has_rsample = True
    support = constraints.real

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.temperature = temperature
        self._take(probs, logits)
        super().__init__(self._parameter.shape, validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        probs = inside(self.probs.expand(shape))
        noise = inside(torch.rand(shape, dtype=probs.dtype))
        return (noise.log() - (-noise).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        difference = logits - value * self.temperature
        return self.temperature.log() + difference - 2 * difference.exp().log1p()


class RelaxedBernoulli(TransformedDistribution):
    """A soft coin: a number between 0 and 1, differentiable by the probability.

    >>> _ = torch.manual_seed(0)
    >>> RelaxedBernoulli(torch.tensor(0.5), torch.tensor([0.5])).rsample()
    tensor([0.4925])
    """

    support = constraints.unit_interval

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(LogitRelaxedBernoulli(temperature, probs, logits), SigmoidTransform(), validate_args)

    temperature = property(lambda self: self.base_dist.temperature)
    probs = property(lambda self: self.base_dist.probs)
    logits = property(lambda self: self.base_dist.logits)


class ExpRelaxedCategorical(Distribution):
    """The logarithms of a soft choice: Gumbel noise on the logits, and a softmax."""

    has_rsample = True
    support = constraints.real_vector
    arg_constraints: ClassVar = {}

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.temperature = temperature
        self._categorical = Categorical(probs, logits)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args)

    probs = property(lambda self: self._categorical.probs)
    logits = property(lambda self: self._categorical.logits)

    def rsample(self, sample_shape: Any = ()) -> Any:
        noise = inside(torch.rand(self._extended_shape(sample_shape), dtype=self.logits.dtype))
        scores = (self.logits - (-noise.log()).log()) / self.temperature
        return scores - scores.logsumexp(-1, keepdim=True)

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        choices = logits.shape[-1]
        scale = torch.full_like(self.temperature, float(choices)).lgamma() + (choices - 1) * self.temperature.log()
        score = logits - value * self.temperature
        return (score - score.logsumexp(-1, keepdim=True)).sum(-1) + scale


class RelaxedOneHotCategorical(TransformedDistribution):
    """A soft choice: numbers that sum to 1, differentiable by the probabilities.

    >>> RelaxedOneHotCategorical(torch.tensor(0.5), torch.tensor([0.2, 0.8])).rsample().sum().round()
    tensor(1.)
    """

    support = constraints.simplex

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(ExpRelaxedCategorical(temperature, probs, logits), ExpTransform(), validate_args)

    temperature = property(lambda self: self.base_dist.temperature)
    probs = property(lambda self: self.base_dist.probs)
    logits = property(lambda self: self.base_dist.logits)


class LogisticNormal(TransformedDistribution):
    """Shares that sum to 1, made of normal numbers by breaking a stick."""

    support = constraints.simplex

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale)
        super().__init__(base if base.batch_shape else base.expand((1,)), StickBreakingTransform(), validate_args)
        self._event_shape = torch.Size((self._event_shape[0] + 1,))  # the last share is what the others leave

    loc = property(lambda self: self.base_dist.loc)
    scale = property(lambda self: self.base_dist.scale)


class FisherSnedecor(Distribution):
    """The ratio of two means of squares."""

    has_rsample = True
    support = constraints.positive
    arg_constraints: ClassVar = {"df1": constraints.positive, "df2": constraints.positive}

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return torch.where(self.df2 > 2, self.df2 / (self.df2 - 2), torch.nan)

    @property
    def mode(self) -> Any:
        value = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return torch.where(self.df1 > 2, value, torch.nan)

    @property
    def variance(self) -> Any:
        df1, df2 = self.df1, torch.where(self.df2 > 4, self.df2, torch.nan)
        return 2 * df2.pow(2) * (df1 + df2 - 2) / (df1 * (df2 - 2).pow(2) * (df2 - 4))

    def rsample(self, sample_shape: Any = ()) -> Any:
        one, two = (Gamma(df * 0.5, df).rsample(sample_shape) for df in (self.df1, self.df2))
        return (one / two.clamp(min=TINY)).clamp(min=TINY)

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        half1, half2, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        constant = (half1 + half2).lgamma() - half1.lgamma() - half2.lgamma() + half1 * ratio.log()
        return constant + (half1 - 1) * value.log() - (half1 + half2) * (ratio * value).log1p()
