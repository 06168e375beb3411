"""Constraints: which values a parameter or a sample may have. `check` tells element by element.

>>> import pellucid as torch
>>> positive.check(torch.tensor([1.0, -1.0]))
tensor([ True, False])
"""

from collections.abc import Callable, Sequence
from typing import Any

import pellucid as torch

__all__ = [
    "Constraint", "MixtureSameFamilyConstraint", "boolean", "cat", "corr_cholesky", "dependent", "dependent_property",
    "greater_than", "greater_than_eq", "half_open_interval", "independent", "integer_interval", "interval",
    "is_dependent", "less_than", "lower_cholesky", "lower_triangular", "multinomial", "nonnegative",
    "nonnegative_integer", "one_hot", "positive", "positive_definite", "positive_integer", "positive_semidefinite",
    "real", "real_vector", "simplex", "square", "stack", "symmetric", "unit_interval",
]  # fmt: skip


class Constraint:
    """A region of values; `event_dim` dimensions on the right together are one value."""

    is_discrete: Any = False
    event_dim: Any = 0

    def check(self, value: Any) -> Any:
        """Whether each value lies inside."""
        raise NotImplementedError

    def __repr__(self) -> str:
        bounds = ", ".join(f"{k}={v}" for k, v in self.__dict__.items() if k in ("lower_bound", "upper_bound"))
        return f"{type(self).__name__.lstrip('_')}({bounds})"


class _Dependent(Constraint):
    """Depends on other parameters or on the instance; called with what is known, it is a constraint that says so."""

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        self._known = {"is_discrete": is_discrete, "event_dim": event_dim}

    def _known_or_refuse(self, what: str) -> Any:
        if self._known[what] is NotImplemented:
            raise NotImplementedError(f".{what} cannot be determined statically")
        return self._known[what]

    @property
    def is_discrete(self) -> Any:  # type: ignore[override]
        return self._known_or_refuse("is_discrete")

    @property
    def event_dim(self) -> Any:  # type: ignore[override]
        return self._known_or_refuse("event_dim")

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> "_Dependent":
        given = {"is_discrete": is_discrete, "event_dim": event_dim}
        known = {name: self._known[name] if value is NotImplemented else value for name, value in given.items()}
        return _Dependent(**known)

    def check(self, value: Any) -> Any:
        raise ValueError("Cannot determine validity of dependent constraint")


class _DependentProperty(property, _Dependent):
    """A property of a distribution that gives a constraint; asked of the class, it is a dependent constraint."""

    def __init__(
        self, fn: Callable[[Any], Any] | None = None, *,
        is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented,
    ) -> None:  # fmt: skip
        property.__init__(self, fn)
        _Dependent.__init__(self, is_discrete=is_discrete, event_dim=event_dim)

    def __call__(self, function: Callable[[Any], Any]) -> "_DependentProperty":  # type: ignore[override]
        return _DependentProperty(function, **self._known)


def is_dependent(constraint: Any) -> bool:
    """Whether a constraint depends on a distribution's own parameters."""
    return isinstance(constraint, _Dependent)


class _IndependentConstraint(Constraint):
    """Holds when it holds for all elements of the rightmost dimensions."""

    def __init__(self, base_constraint: Any, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint, self.reinterpreted_batch_ndims = base_constraint, reinterpreted_batch_ndims

    @property
    def is_discrete(self) -> Any:  # type: ignore[override]
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> Any:  # type: ignore[override]
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Any) -> Any:
        inside = self.base_constraint.check(value)
        if inside.dim() < self.reinterpreted_batch_ndims:
            expected = self.base_constraint.event_dim + self.reinterpreted_batch_ndims
            raise ValueError(f"Expected value.dim() >= {expected} but got {value.dim()}")
        return inside.reshape((*inside.shape[: inside.dim() - self.reinterpreted_batch_ndims], -1)).all(-1)

    def __repr__(self) -> str:
        return f"{type(self).__name__[1:]}({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """Lies in the support of every component."""

    def __init__(self, base_constraint: Any) -> None:
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> Any:  # type: ignore[override]
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> Any:  # type: ignore[override]
        return self.base_constraint.event_dim

    def check(self, value: Any) -> Any:
        events = self.event_dim
        inside = self.base_constraint.check(value.unsqueeze(-1 - events))
        if value.dim() < events:
            raise ValueError(f"Expected value.dim() >= {events} but got {value.dim()}")
        batch = value.dim() - events
        return inside.reshape((*inside.shape[:batch], -1)).all(-1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_constraint!r})"


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Any) -> Any:
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1

    def check(self, value: Any) -> Any:
        return ((value == 0) | (value == 1)).all(-1) & value.sum(-1).eq(1)


class _Bounds(Constraint):
    """Two bounds; the kinds differ in which of them are inside."""

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound


class _IntegerInterval(_Bounds):
    is_discrete = True

    def check(self, value: Any) -> Any:
        return (value % 1 == 0) & (self.lower_bound <= value) & (value <= self.upper_bound)


class _Interval(_Bounds):
    def check(self, value: Any) -> Any:
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_Bounds):
    def check(self, value: Any) -> Any:
        return (self.lower_bound <= value) & (value < self.upper_bound)


class _IntegerLessThan(Constraint):
    is_discrete = True

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Any) -> Any:
        return (value % 1 == 0) & (value <= self.upper_bound)


class _LessThan(Constraint):
    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Any) -> Any:
        return value < self.upper_bound


class _LowerBound(Constraint):
    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound


class _IntegerGreaterThan(_LowerBound):
    is_discrete = True

    def check(self, value: Any) -> Any:
        return (value % 1 == 0) & (value >= self.lower_bound)


class _GreaterThan(_LowerBound):
    def check(self, value: Any) -> Any:
        return self.lower_bound < value


class _GreaterThanEq(_LowerBound):
    def check(self, value: Any) -> Any:
        return self.lower_bound <= value


class _Real(Constraint):
    def check(self, value: Any) -> Any:
        return value == value  # only NaN differs from itself


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Any) -> Any:
        return torch.all(value >= 0, dim=-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any) -> None:
        self._upper_bound = upper_bound  # not shown

    @property
    def upper_bound(self) -> Any:
        """The most that the counts may add up to."""
        return self._upper_bound

    def check(self, value: Any) -> Any:
        return (value >= 0).all(dim=-1) & (value.sum(dim=-1) <= self._upper_bound)


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Any:
        return (value.tril() == value).flatten(-2).all(-1)


class _LowerCholesky(_LowerTriangular):
    def check(self, value: Any) -> Any:
        return super().check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(Constraint):
    """A lower triangular matrix with a positive diagonal whose rows have length 1."""

    event_dim = 2

    def check(self, value: Any) -> Any:
        rounding = torch.finfo(value.dtype).eps * value.size(-1) * 10
        length = torch.linalg.norm(value.detach(), dim=-1)
        return _LowerCholesky().check(value) & (length - 1).abs().le(rounding).all(dim=-1)


class _Square(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Any:
        return torch.full(value.shape[:-2], value.shape[-2] == value.shape[-1], dtype=torch.bool)


class _Symmetric(_Square):
    def check(self, value: Any) -> Any:
        square = super().check(value)
        return torch.isclose(value, value.mT, atol=1e-6).all(-2).all(-1) if bool(square.all()) else square


class _PositiveSemidefinite(_Symmetric):
    def check(self, value: Any) -> Any:
        symmetric = super().check(value)
        return torch.linalg.eigvalsh(value).ge(0).all(-1) if bool(symmetric.all()) else symmetric


class _PositiveDefinite(_Symmetric):
    def check(self, value: Any) -> Any:
        symmetric = super().check(value)
        return torch.linalg.cholesky_ex(value).info.eq(0) if bool(symmetric.all()) else symmetric


class _Several(Constraint):
    """One constraint for each slice along a dimension."""

    def __init__(self, cseq: Sequence[Any], dim: int) -> None:
        if not all(isinstance(each, Constraint) for each in cseq):
            raise AssertionError("All elements of cseq must be Constraint instances")
        self.cseq, self.dim = list(cseq), dim

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return any(each.is_discrete for each in self.cseq)


class _Cat(_Several):
    def __init__(self, cseq: Sequence[Any], dim: int = 0, lengths: Sequence[int] | None = None) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise AssertionError("lengths must match cseq")

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return max(each.event_dim for each in self.cseq)

    def check(self, value: Any) -> Any:
        starts = [sum(self.lengths[:i]) for i in range(len(self.lengths))]
        parts = [value.narrow(self.dim, *place) for place in zip(starts, self.lengths, strict=True)]
        return torch.cat([each.check(part) for each, part in zip(self.cseq, parts, strict=True)], self.dim)


class _Stack(_Several):
    def __init__(self, cseq: Sequence[Any], dim: int = 0) -> None:
        super().__init__(cseq, dim)

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        inner = max(each.event_dim for each in self.cseq)
        return inner + 1 if self.dim + inner < 0 else inner

    def check(self, value: Any) -> Any:
        slices = [value.select(self.dim, i) for i in range(value.size(self.dim))]
        return torch.stack([each.check(part) for each, part in zip(self.cseq, slices, strict=True)], self.dim)


dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat = _Cat
stack = _Stack
