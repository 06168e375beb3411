"""Distributions whose middle is `loc`, and those that are stretched by `scale` as well."""

from typing import Any, ClassVar

from pellucid.distributions import constraints
from pellucid.distributions.distribution import Distribution
from pellucid.distributions.utils import broadcast_all


class Located(Distribution):
    """A distribution whose peak is `loc`, and its mean where nothing else is said."""

    loc: Any

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc


class LocationScale(Located):
    """A standard distribution that is stretched by `scale` and moved by `loc`."""

    has_rsample = True
    support = constraints.real
    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)
