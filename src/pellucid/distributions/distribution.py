"""Distribution: what all distributions have in common."""

from typing import Any, ClassVar

import pellucid as torch
from pellucid.core.tensor import Tensor
from pellucid.distributions import constraints

__all__ = ["Distribution", "broadcast_all"]


def broadcast_all(*values: Any) -> tuple[Any, ...]:
    """Numbers and tensors as tensors of one shape.

    >>> broadcast_all(1.0, torch.zeros(2))
    (tensor([1., 1.]), tensor([0., 0.]))
    """
    if not all(isinstance(value, (Tensor, int, float)) for value in values):
        raise ValueError("Input arguments must all be instances of Number, torch.Tensor")
    like = next((value for value in values if isinstance(value, Tensor)), None)
    dtype = torch.get_default_dtype() if like is None or not like.is_floating_point() else like.dtype
    tensors = [value if isinstance(value, Tensor) else torch.tensor(value, dtype=dtype) for value in values]
    return tuple(torch.broadcast_tensors(*tensors))


class Distribution:
    """Batches of distributions: `batch_shape` counts distributions, `event_shape` is the shape of one sample."""

    has_rsample = False
    has_enumerate_support = False
    arg_constraints: ClassVar[dict[str, Any]] = {}
    support: Any = None
    _validate_args = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Check arguments and samples of all distributions, or do not."""
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def __init__(self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None) -> None:
        self._batch_shape, self._event_shape = torch.Size(batch_shape), torch.Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()

    def _check_parameters(self) -> None:
        for name, constraint in self.arg_constraints.items():
            if constraints.is_dependent(constraint) or name not in self.__dict__:
                continue
            value = getattr(self, name)
            valid = constraint.check(value)
            if not bool(valid.all()):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
                )

    @property
    def batch_shape(self) -> Any:
        """How many distributions there are."""
        return self._batch_shape

    @property
    def event_shape(self) -> Any:
        """The shape of one sample of one distribution."""
        return self._event_shape

    @property
    def mean(self) -> Any:
        """The mean."""
        raise NotImplementedError

    @property
    def mode(self) -> Any:
        """The most likely value."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Any:
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self) -> Any:
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = ()) -> Any:
        """Values drawn at random, without gradient."""
        with torch.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Values drawn at random as a differentiable function of the parameters."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Any:
        """n values."""
        return self.sample((n,))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density or probability."""
        raise NotImplementedError

    def cdf(self, value: Any) -> Any:
        """The probability of values up to this one."""
        raise NotImplementedError

    def icdf(self, value: Any) -> Any:
        """The value up to which the probability is this."""
        raise NotImplementedError

    def entropy(self) -> Any:
        """The entropy in nats."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Any:
        """All values there are."""
        raise NotImplementedError

    def perplexity(self) -> Any:
        """The exponential of the entropy."""
        return torch.exp(self.entropy())

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distributions in a larger batch."""
        shape = torch.Size(batch_shape)
        made = object.__new__(type(self))
        for name, value in self.__dict__.items():
            if isinstance(value, Tensor):
                inner = value.shape[len(self._batch_shape) :]
                value = value.expand(shape + inner)
            elif isinstance(value, Distribution):
                value = value.expand(shape)
            made.__dict__[name] = value
        made._batch_shape = shape
        return made

    def _extended_shape(self, sample_shape: Any = ()) -> Any:
        return torch.Size(sample_shape) + self._batch_shape + self._event_shape

    def _validate_sample(self, value: Any) -> None:
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        inner = len(self._event_shape)
        if tuple(value.shape[len(value.shape) - inner :]) != tuple(self._event_shape):
            raise ValueError(
                "The right-most size of value must match event_shape: "
                f"{tuple(value.shape)} vs {tuple(self._event_shape)}."
            )
        torch.broadcast_shapes(tuple(value.shape), tuple(self._batch_shape + self._event_shape))
        support = self.support
        if support is None or constraints.is_dependent(support):
            return
        if not bool(support.check(value).all()):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the "
                f"support ({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def _checked(self, value: Any) -> None:
        if self._validate_args:
            self._validate_sample(value)

    def __repr__(self) -> str:
        parts = []
        for name in self.arg_constraints:
            if name in self.__dict__:
                value = self.__dict__[name]
                parts.append(f"{name}: {value if value.numel() == 1 else value.size()}")
        return f"{type(self).__name__}({', '.join(parts)})"
