"""Distribution: what all distributions have in common."""

import warnings
from typing import Any, ClassVar

import pellucid as torch
from pellucid.core.tensor import Tensor
from pellucid.distributions import constraints
from pellucid.distributions.utils import lazy_property

__all__ = ["Distribution"]


class Distribution:
    """Batches of distributions: `batch_shape` counts distributions, `event_shape` is the shape of one sample.

    >>> import pellucid as torch
    >>> normals = torch.distributions.Normal(torch.zeros(3), torch.ones(3))  # three distributions
    >>> normals.batch_shape, normals.event_shape, normals.sample((5,)).shape
    (torch.Size([3]), torch.Size([]), torch.Size([5, 3]))
    >>> one = torch.distributions.MultivariateNormal(torch.zeros(3), torch.eye(3))  # one, of vectors
    >>> one.batch_shape, one.event_shape, one.sample((5,)).shape
    (torch.Size([]), torch.Size([3]), torch.Size([5, 3]))
    """

    has_rsample: Any = False
    has_enumerate_support: Any = False
    arg_constraints: ClassVar[Any] = NotImplemented
    support: Any = None
    _validate_args: bool = __debug__
    _as_given: tuple[str, ...] = ()  # attributes that stay as they are when the batch grows

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
        if self.arg_constraints is NotImplemented:
            warnings.warn(
                f"{type(self)} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or initialize "
                "the distribution with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
            return
        for name, constraint in self.arg_constraints.items():
            unknown = name not in self.__dict__ and isinstance(getattr(type(self), name, None), lazy_property)
            if constraints.is_dependent(constraint) or unknown:
                continue
            value = getattr(self, name)
            if not bool(constraint.check(value).all()):
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
        """n values: an old name of `sample((n,))`."""
        warnings.warn("sample_n will be deprecated. Use .sample((n,)) instead", UserWarning, stacklevel=2)
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
        shape, made = torch.Size(batch_shape), self._get_checked_instance(type(self), _instance)
        for name, value in self.__dict__.items():
            if isinstance(value, Tensor) and name not in self._as_given:
                value = value.expand(shape + value.shape[len(self._batch_shape) :])
            elif isinstance(value, Distribution):
                value = value.expand(shape + value.batch_shape[len(self._batch_shape) :])
            made.__dict__[name] = value
        made._batch_shape = shape
        return made

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        if _instance is None and type(self).__init__ is not cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method must also "
                "define a custom .expand() method."
            )
        return object.__new__(type(self)) if _instance is None else _instance

    def _extended_shape(self, sample_shape: Any = ()) -> Any:
        return torch.Size(sample_shape) + self._batch_shape + self._event_shape

    def _validate_sample(self, value: Any) -> None:
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        self._validate_shape(value)
        support = self.support
        if support is not None and not bool(support.check(value).all()):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the "
                f"support ({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def _validate_shape(self, value: Any) -> None:
        if value.shape[max(value.dim() - len(self._event_shape), 0) :] != self._event_shape:
            raise ValueError(
                f"The right-most size of value must match event_shape: {value.shape} vs {self._event_shape}."
            )
        expected = self._batch_shape + self._event_shape
        for one, two in zip(reversed(value.shape), reversed(expected), strict=False):
            if one not in (1, two) and two != 1:
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs {expected}."
                )

    def _checked(self, value: Any) -> None:
        if self._validate_args:
            self._validate_sample(value)

    def __repr__(self) -> str:
        shown = {name: self.__dict__[name] for name in self.arg_constraints if name in self.__dict__}
        parts = (f"{name}: {value if value.numel() == 1 else value.size()}" for name, value in shown.items())
        return f"{type(self).__name__}({', '.join(parts)})"
