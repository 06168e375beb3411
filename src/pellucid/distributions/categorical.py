"""Choices: one of several, or how often each was taken."""

import math
from typing import Any, ClassVar

import pellucid as torch
from pellucid.distributions import constraints
from pellucid.distributions.counts import Binomial, one_of
from pellucid.distributions.distribution import Distribution
from pellucid.distributions.utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits

__all__ = ["Categorical", "Multinomial", "OneHotCategorical", "OneHotCategoricalStraightThrough"]


class Categorical(Distribution):
    """One of several choices.

    >>> Categorical(torch.tensor([0.25, 0.75])).entropy()
    tensor(0.5623)
    """

    has_enumerate_support = True
    arg_constraints: ClassVar[Any] = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        one_of(probs, logits)
        given = logits if probs is None else probs
        if given.dim() < 1:
            raise ValueError(f"`{'logits' if probs is None else 'probs'}` parameter must be at least one-dimensional.")
        if probs is not None:
            self.probs = probs / probs.sum(-1, keepdim=True)
        else:
            self.logits = logits - logits.logsumexp(-1, keepdim=True)
        self._param = given
        self._num_events = given.shape[-1]
        super().__init__(given.shape[:-1], validate_args=validate_args)

    @lazy_property
    def logits(self) -> Any:
        """The logarithm of each choice's probability."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Any:
        """The probability of each choice."""
        return logits_to_probs(self.logits)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:  # type: ignore[override]
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self._param.size()

    @property
    def mean(self) -> Any:
        return torch.full(self._extended_shape(), math.nan, dtype=self._param.dtype)

    @property
    def mode(self) -> Any:
        return self.probs.argmax(dim=-1)

    @property
    def variance(self) -> Any:
        return torch.full(self._extended_shape(), math.nan, dtype=self._param.dtype)

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = torch.Size(sample_shape)
        flat = self.probs.detach().reshape(-1, self._num_events)
        drawn = torch.multinomial(flat, shape.numel(), True).T
        return drawn.reshape(self._extended_shape(shape))

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        index, logits = torch.broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return logits.gather(-1, index[..., :1]).squeeze(-1)

    def entropy(self) -> Any:
        logits = self.logits.clamp(min=torch.finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Any:
        values = torch.arange(self._num_events).view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values


class ByChoice(Distribution):
    """A distribution of vectors that have an entry for each choice of a Categorical."""

    arg_constraints: ClassVar[Any] = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._categorical = Categorical(probs, logits)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args)

    probs = property(lambda self: self._categorical.probs)
    logits = property(lambda self: self._categorical.logits)
    param_shape = property(lambda self: self._categorical.param_shape)
    _param = property(lambda self: self._categorical._param)


class OneHotCategorical(ByChoice):
    """One of several choices, as a vector with a single one."""

    support = constraints.one_hot
    has_enumerate_support = True

    @property
    def mean(self) -> Any:
        return self.probs

    @property
    def mode(self) -> Any:
        return self._hot(self.probs.argmax(dim=-1))

    @property
    def variance(self) -> Any:
        return self.probs * (1 - self.probs)

    def _hot(self, index: Any) -> Any:
        return torch.nn.functional.one_hot(index, self._event_shape[0]).to(self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        return self._hot(self._categorical.sample(sample_shape))

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        return self._categorical.log_prob(value.max(-1)[1])

    def entropy(self) -> Any:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Any:
        count = self._event_shape[0]
        values = torch.eye(count, dtype=self._param.dtype)
        values = values.view((count,) + (1,) * len(self._batch_shape) + (count,))
        return values.expand((count, *self._batch_shape, count)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """The same, with the gradient of the probabilities."""

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.sample(sample_shape) + (self._categorical.probs - self._categorical.probs.detach())


class Multinomial(ByChoice):
    """How often each of several choices is made in so many tries."""

    def __init__(
        self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        super().__init__(probs, logits, validate_args)
        self._binomial = Binomial(total_count, probs=self._categorical.probs)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:  # type: ignore[override]
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Any:
        return self.probs * self.total_count

    @property
    def variance(self) -> Any:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        choices = self._categorical.sample((self.total_count, *sample_shape))
        return torch.nn.functional.one_hot(choices, self._event_shape[0]).sum(0).to(self.probs)

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        ways = torch.lgamma(value.sum(-1) + 1) - torch.lgamma(value + 1).sum(-1)
        return ways + torch.where((value == 0) & (logits == -math.inf), 0.0, logits * value).sum(-1)

    def entropy(self) -> Any:
        """The entropy by Binomial ones of each choice: all counts there can be are summed over."""
        n: Any = torch.tensor(self.total_count)
        support = self._binomial.enumerate_support(expand=False)[1:]
        weights = torch.exp(self._binomial.log_prob(support))
        more = (weights * torch.lgamma(support + 1)).sum([0, -1])
        return n * self._categorical.entropy() - torch.lgamma(n + 1) + more
