"""Choices made soft: samples between the corners that come closer to them as the temperature falls."""

from typing import Any, ClassVar

import pellucid as torch
from pellucid.distributions import constraints
from pellucid.distributions.categorical import ByChoice
from pellucid.distributions.combined import TransformedDistribution
from pellucid.distributions.counts import TwoWays
from pellucid.distributions.transforms import ExpTransform, SigmoidTransform
from pellucid.distributions.utils import broadcast_all, clamp_probs

__all__ = ["ExpRelaxedCategorical", "LogitRelaxedBernoulli", "RelaxedBernoulli", "RelaxedOneHotCategorical"]


class LogitRelaxedBernoulli(TwoWays):
    """The logit of a soft coin."""

    has_rsample = True
    support = constraints.real
    _as_given = ("temperature",)

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.temperature = temperature
        self._take(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        noise = clamp_probs(torch.rand(shape, dtype=probs.dtype))
        return (noise.log() - (-noise).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        difference = logits - value * self.temperature
        return self.temperature.log() + difference - 2 * difference.exp().log1p()


class Relaxed(TransformedDistribution):
    """A soft choice: a kind of unbounded number that a transform brings between the corners."""

    has_rsample = True
    unbounded: Any
    transform: Any

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(self.unbounded(temperature, probs, logits), self.transform(), validate_args)

    temperature = property(lambda self: self.base_dist.temperature)
    probs = property(lambda self: self.base_dist.probs)
    logits = property(lambda self: self.base_dist.logits)


class RelaxedBernoulli(Relaxed):
    """A soft coin: a number between 0 and 1, differentiable by the probability.

    >>> _ = torch.manual_seed(0)
    >>> RelaxedBernoulli(torch.tensor(0.5), torch.tensor([0.5])).rsample()
    tensor([0.4925])
    """

    unbounded, transform = LogitRelaxedBernoulli, SigmoidTransform
    support = constraints.unit_interval
    arg_constraints: ClassVar[Any] = LogitRelaxedBernoulli.arg_constraints


class ExpRelaxedCategorical(ByChoice):
    """The logarithms of a soft choice: Gumbel noise on the logits, and a softmax."""

    has_rsample = True
    support = constraints.real_vector
    _as_given = ("temperature",)

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.temperature = temperature
        super().__init__(probs, logits, validate_args)

    def rsample(self, sample_shape: Any = ()) -> Any:
        noise = clamp_probs(torch.rand(self._extended_shape(sample_shape), dtype=self.logits.dtype))
        scores = (self.logits - (-noise.log()).log()) / self.temperature
        return scores - scores.logsumexp(-1, keepdim=True)

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        choices = logits.shape[-1]
        scale = torch.full_like(self.temperature, float(choices)).lgamma() + (choices - 1) * self.temperature.log()
        score = logits - value * self.temperature
        return (score - score.logsumexp(-1, keepdim=True)).sum(-1) + scale


class RelaxedOneHotCategorical(Relaxed):
    """A soft choice: numbers that sum to 1, differentiable by the probabilities.

    >>> RelaxedOneHotCategorical(torch.tensor(0.5), torch.tensor([0.2, 0.8])).rsample().sum().round()
    tensor(1.)
    """

    unbounded, transform = ExpRelaxedCategorical, ExpTransform
    support = constraints.simplex
    arg_constraints: ClassVar[Any] = ExpRelaxedCategorical.arg_constraints
