"""Constraints: which values a parameter or a sample may have, as functions that tell element by element."""

from collections.abc import Callable
from typing import Any

import pellucid as torch

__all__ = [
    "Constraint", "boolean", "dependent", "greater_than", "half_open_interval", "integer_interval", "interval",
    "is_dependent", "less_than", "lower_cholesky", "nonnegative", "nonnegative_integer", "one_hot", "positive",
    "positive_definite", "positive_integer", "real", "real_vector", "simplex", "square", "symmetric", "unit_interval",
]  # fmt: skip


class Constraint:
    """A region of values; `check` says of each value (or vector, or matrix) whether it lies inside.

    >>> import pellucid as torch
    >>> positive.check(torch.tensor([1.0, -1.0]))
    tensor([ True, False])
    """

    is_discrete = False
    event_dim = 0

    def __init__(self, name: str, check: Callable[[Any], Any], event_dim: int = 0, is_discrete: bool = False) -> None:
        self.name, self._check, self.event_dim, self.is_discrete = name, check, event_dim, is_discrete

    def check(self, value: Any) -> Any:
        """Whether each value lies inside."""
        return self._check(value)

    def __repr__(self) -> str:
        return self.name


def is_dependent(constraint: Any) -> bool:
    """Whether a constraint depends on a distribution's own parameters."""
    return constraint is dependent


def interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Values from one bound to the other, both included."""
    name = f"Interval(lower_bound={lower_bound}, upper_bound={upper_bound})"
    return Constraint(name, lambda value: (lower_bound <= value) & (value <= upper_bound))


def half_open_interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Values from one bound to the other, the upper one excluded."""
    name = f"HalfOpenInterval(lower_bound={lower_bound}, upper_bound={upper_bound})"
    return Constraint(name, lambda value: (lower_bound <= value) & (value < upper_bound))


def integer_interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Whole numbers from one bound to the other, both included."""
    return Constraint(
        f"IntegerInterval(lower_bound={lower_bound}, upper_bound={upper_bound})",
        lambda value: (value % 1 == 0) & (lower_bound <= value) & (value <= upper_bound), is_discrete=True,
    )  # fmt: skip


def greater_than(lower_bound: Any) -> Constraint:
    """Values above a bound."""
    return Constraint(f"GreaterThan(lower_bound={lower_bound})", lambda value: value > lower_bound)


def less_than(upper_bound: Any) -> Constraint:
    """Values below a bound."""
    return Constraint(f"LessThan(upper_bound={upper_bound})", lambda value: value < upper_bound)


def _refuse(value: Any) -> Any:
    raise ValueError("Cannot determine validity of dependent constraint")


def _is_simplex(value: Any) -> Any:
    return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


def _is_symmetric(value: Any) -> Any:
    return torch.isclose(value, value.mT, atol=1e-6).all(-2).all(-1)


def _is_positive_definite(value: Any) -> Any:
    return _is_symmetric(value) & (torch.linalg.cholesky_ex(value).info == 0)


def _is_lower_cholesky(value: Any) -> Any:
    return (value.tril() == value).all(-1).all(-1) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


dependent = Constraint("dependent", _refuse)
boolean = Constraint("Boolean()", lambda value: (value == 0) | (value == 1), is_discrete=True)
one_hot = Constraint("OneHot()", lambda value: ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1), 1, True)
nonnegative_integer = Constraint(
    "IntegerGreaterThan(lower_bound=0)", lambda value: (value % 1 == 0) & (value >= 0), 0, True
)
positive_integer = Constraint(
    "IntegerGreaterThan(lower_bound=1)", lambda value: (value % 1 == 0) & (value >= 1), 0, True
)
real = Constraint("Real()", lambda value: value == value)
real_vector = Constraint("IndependentConstraint(Real(), 1)", lambda value: (value == value).all(-1), 1)
positive = Constraint("GreaterThan(lower_bound=0.0)", lambda value: value > 0)
nonnegative = Constraint("GreaterThanEq(lower_bound=0.0)", lambda value: value >= 0)
unit_interval = interval(0.0, 1.0)
simplex = Constraint("Simplex()", _is_simplex, 1)
square = Constraint("Square()", lambda value: torch.full(value.shape[:-2], value.shape[-2] == value.shape[-1]), 2)
symmetric = Constraint("Symmetric()", _is_symmetric, 2)
positive_definite = Constraint("PositiveDefinite()", _is_positive_definite, 2)
lower_cholesky = Constraint("LowerCholesky()", _is_lower_cholesky, 2)
