"""Distributions of whole numbers and of choices."""

import math
from typing import Any, ClassVar

import pellucid as torch
from pellucid.distributions import constraints
from pellucid.distributions.distribution import Distribution, broadcast_all

__all__ = [
    "Bernoulli", "Binomial", "Categorical", "Geometric", "Multinomial", "NegativeBinomial", "OneHotCategorical",
    "OneHotCategoricalStraightThrough", "Poisson", "logits_to_probs", "probs_to_logits",
]  # fmt: skip


def probs_to_logits(probs: Any, is_binary: bool = False) -> Any:
    """Probabilities as logits; 0 and 1 are moved in by a rounding error so that the result is finite."""
    eps = torch.finfo(probs.dtype).eps
    inside = probs.clamp(min=eps, max=1 - eps)
    return torch.log(inside) - torch.log1p(-inside) if is_binary else torch.log(inside)


def logits_to_probs(logits: Any, is_binary: bool = False) -> Any:
    """Logits as probabilities."""
    return torch.sigmoid(logits) if is_binary else torch.softmax(logits, -1)


def _one_of(probs: Any, logits: Any) -> None:
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")


class TwoWays(Distribution):
    """A distribution given by the probability of a success, or by its logit."""

    arg_constraints: ClassVar = {"probs": constraints.unit_interval, "logits": constraints.real}

    def _take(self, probs: Any, logits: Any, *others: Any) -> tuple[Any, ...]:
        _one_of(probs, logits)
        *rest, parameter = broadcast_all(*others, logits if probs is None else probs)
        self.__dict__["logits" if probs is None else "probs"] = parameter
        self._parameter = parameter
        return tuple(rest)

    def __getattr__(self, name: str) -> Any:
        if name == "probs" and "logits" in self.__dict__:
            return logits_to_probs(self.logits, is_binary=True)
        if name == "logits" and "probs" in self.__dict__:
            return probs_to_logits(self.probs, is_binary=True)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self._parameter.size()


class Bernoulli(TwoWays):
    """One with a probability, else zero.

    >>> Bernoulli(0.25).log_prob(torch.tensor(1.0))
    tensor(-1.3863)
    """

    support = constraints.boolean
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._take(probs, logits)
        super().__init__(self._parameter.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.probs

    @property
    def mode(self) -> Any:
        mode = (self.probs >= 0.5).to(self.probs)
        return torch.where(self.probs == 0.5, math.nan, mode)

    @property
    def variance(self) -> Any:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        with torch.no_grad():
            return torch.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        return -torch.nn.functional.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Any:
        return torch.nn.functional.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Any:
        values = torch.arange(2, dtype=self._parameter.dtype).view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values


class Geometric(TwoWays):
    """How many failures come before the first success."""

    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._take(probs, logits)
        super().__init__(self._parameter.shape, validate_args=validate_args)
        if self._validate_args and probs is not None and not bool((self.probs > 0).all()):
            raise ValueError(f"Expected parameter probs of distribution {self!r} to be positive")

    @property
    def mean(self) -> Any:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Any:
        return torch.zeros_like(self.probs)

    @property
    def variance(self) -> Any:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Any = ()) -> Any:
        with torch.no_grad():
            u = self.probs.new_empty(self._extended_shape(sample_shape)).uniform_(torch.finfo(self.probs.dtype).tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        value, probs = broadcast_all(value, self.probs)
        probs = torch.where((probs == 1) & (value == 0), 0.0, probs)
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self) -> Any:
        bits = torch.nn.functional.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")
        return bits / self.probs


class Poisson(Distribution):
    """How often something happens."""

    support = constraints.nonnegative_integer
    arg_constraints: ClassVar = {"rate": constraints.nonnegative}

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.rate

    @property
    def mode(self) -> Any:
        return self.rate.floor()

    @property
    def variance(self) -> Any:
        return self.rate

    def sample(self, sample_shape: Any = ()) -> Any:
        with torch.no_grad():
            return torch.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        rate, value = broadcast_all(self.rate, value)
        return value.xlogy(rate) - rate - (value + 1).lgamma()


class Binomial(TwoWays):
    """How many of so many tries succeed."""

    has_enumerate_support = True
    arg_constraints: ClassVar = {
        "total_count": constraints.nonnegative_integer, "probs": constraints.unit_interval, "logits": constraints.real,
    }  # fmt: skip

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        (self.total_count,) = self._take(probs, logits, total_count)
        self.total_count = self.total_count.type_as(self._parameter)
        super().__init__(self._parameter.shape, validate_args=validate_args)

    @property
    def support(self) -> Any:  # type: ignore[override]
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Any:
        return self.total_count * self.probs

    @property
    def mode(self) -> Any:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Any:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        with torch.no_grad():
            return torch.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        n = self.total_count
        ways = torch.lgamma(n + 1) - torch.lgamma(value + 1) - torch.lgamma(n - value + 1)
        positive = (self.logits.abs() + self.logits) / 2  # its slope at 0 is a half, as PyTorch has it
        size = n * positive + n * torch.log1p(torch.exp(-torch.abs(self.logits)))
        return value * self.logits + ways - size

    def entropy(self) -> Any:
        most = int(self.total_count.max())
        if not bool((self.total_count == most).all()):
            raise NotImplementedError("Inhomogeneous total count not supported by `entropy`.")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(torch.exp(log_prob) * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Any:
        most = int(self.total_count.max())
        values = torch.arange(1 + most, dtype=self._parameter.dtype).view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values


class NegativeBinomial(TwoWays):
    """How many successes come before so many failures."""

    support = constraints.nonnegative_integer
    arg_constraints: ClassVar = {
        "total_count": constraints.nonnegative, "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }  # fmt: skip

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        (self.total_count,) = self._take(probs, logits, total_count)
        self.total_count = self.total_count.type_as(self._parameter)
        super().__init__(self._parameter.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.total_count * torch.exp(self.logits)

    @property
    def mode(self) -> Any:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Any:
        return self.mean / torch.sigmoid(-self.logits)

    def sample(self, sample_shape: Any = ()) -> Any:
        from pellucid.distributions.continuous import Gamma

        with torch.no_grad():
            rate = Gamma(self.total_count, torch.exp(-self.logits), validate_args=False).sample(sample_shape)
            return torch.poisson(rate)

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        n, log_sigmoid = self.total_count, torch.nn.functional.logsigmoid
        size = -torch.lgamma(n + value) + torch.lgamma(1.0 + value) + torch.lgamma(n)
        size = size.masked_fill(n + value == 0.0, 0.0)
        return n * log_sigmoid(-self.logits) + value * log_sigmoid(self.logits) - size


class Categorical(Distribution):
    """One of several choices.

    >>> Categorical(torch.tensor([0.25, 0.75])).entropy()
    tensor(0.5623)
    """

    has_enumerate_support = True
    arg_constraints: ClassVar = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        _one_of(probs, logits)
        given = logits if probs is None else probs
        if given.dim() < 1:
            raise ValueError(f"`{'logits' if probs is None else 'probs'}` parameter must be at least one-dimensional.")
        if probs is not None:
            self.probs = probs / probs.sum(-1, keepdim=True)
        else:
            self.logits = logits - logits.logsumexp(-1, keepdim=True)
        self._parameter = given
        self._num_events = given.shape[-1]
        super().__init__(given.shape[:-1], validate_args=validate_args)

    def __getattr__(self, name: str) -> Any:
        if name == "probs" and "logits" in self.__dict__:
            return logits_to_probs(self.logits)
        if name == "logits" and "probs" in self.__dict__:
            return probs_to_logits(self.probs)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def support(self) -> Any:  # type: ignore[override]
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self._parameter.size()

    @property
    def mean(self) -> Any:
        return torch.full(self._extended_shape(), math.nan, dtype=self._parameter.dtype)

    @property
    def mode(self) -> Any:
        return self.probs.argmax(dim=-1)

    @property
    def variance(self) -> Any:
        return torch.full(self._extended_shape(), math.nan, dtype=self._parameter.dtype)

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


class OneHotCategorical(Distribution):
    """One of several choices, as a vector with a single one."""

    support = constraints.one_hot
    has_enumerate_support = True
    arg_constraints: ClassVar = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._categorical = Categorical(probs, logits)
        shape = self._categorical._parameter.shape
        super().__init__(shape[:-1], shape[-1:], validate_args)

    @property
    def probs(self) -> Any:
        """The probability of each choice."""
        return self._categorical.probs

    @property
    def logits(self) -> Any:
        """The logarithm of each choice's probability."""
        return self._categorical.logits

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

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """The same, with the gradient of the probabilities."""

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(Distribution):
    """How often each of several choices is made in so many tries."""

    arg_constraints: ClassVar = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(
        self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs, logits)
        shape = self._categorical._parameter.shape
        super().__init__(shape[:-1], shape[-1:], validate_args)

    @property
    def support(self) -> Any:  # type: ignore[override]
        return constraints.Constraint(
            "Multinomial()", lambda value: (value >= 0).all(-1) & (value.sum(-1) <= self.total_count), 1, True
        )

    @property
    def probs(self) -> Any:
        """The probability of each choice."""
        return self._categorical.probs

    @property
    def logits(self) -> Any:
        """The logarithm of each choice's probability."""
        return self._categorical.logits

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

    def __repr__(self) -> str:
        return "Multinomial()"
