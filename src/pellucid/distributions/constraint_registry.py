"""transform_to and biject_to: for each constraint a transform from the unconstrained real numbers to its values.

`biject_to` gives invertible ones (for Hamiltonian Monte Carlo), `transform_to` those that optimise well.

>>> import pellucid as torch
>>> transform_to(constraints.positive)(torch.tensor(0.0))
tensor(1.)
"""

from collections.abc import Callable
from typing import Any

from pellucid.distributions import constraints, transforms

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """Which transform makes values that satisfy a constraint; `register` adds a kind of constraint.

    >>> import pellucid as torch
    >>> from pellucid.distributions import constraints
    >>> positive = torch.distributions.biject_to(constraints.positive)
    >>> positive(torch.tensor([-1.0, 0.0, 1.0]))  # any real number becomes a positive one
    tensor([0.3679, 1.0000, 2.7183])
    >>> torch.distributions.transform_to(constraints.simplex)(torch.zeros(4))
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    def __init__(self) -> None:
        self._registry: dict[type, Callable[[Any], Any]] = {}

    def register(self, constraint: Any, factory: Callable[[Any], Any] | None = None) -> Callable[..., Any]:
        """Enlist the factory of transforms for a constraint's class; also a decorator."""
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        kind = type(constraint) if isinstance(constraint, constraints.Constraint) else constraint
        if not (isinstance(kind, type) and issubclass(kind, constraints.Constraint)):
            raise TypeError(f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}")
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Any) -> Any:
        if type(constraint) not in self._registry:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return self._registry[type(constraint)](constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _above(constraint: Any) -> Any:
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(constraint.lower_bound, 1)]
    )


def _below(constraint: Any) -> Any:
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(constraint.upper_bound, -1)]
    )


def _between(constraint: Any) -> Any:
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, (int, float)) and isinstance(high, (int, float)) and (low, high) == (0, 1):
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform([transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)])


BOTH: dict[Any, Callable[[Any], Any]] = {
    constraints.real: lambda constraint: transforms.identity_transform,
    constraints.greater_than: _above,
    constraints.greater_than_eq: _above,
    constraints.less_than: _below,
    constraints.interval: _between,
    constraints.half_open_interval: _between,
    constraints.corr_cholesky: lambda constraint: transforms.CorrCholeskyTransform(),
}
ONLY_TRANSFORM: dict[Any, Callable[[Any], Any]] = {
    constraints.simplex: lambda constraint: transforms.SoftmaxTransform(),
    constraints.lower_cholesky: lambda constraint: transforms.LowerCholeskyTransform(),
    constraints.positive_definite: lambda constraint: transforms.PositiveDefiniteTransform(),
    constraints.positive_semidefinite: lambda constraint: transforms.PositiveDefiniteTransform(),
}


def _enlist_composed(registry: ConstraintRegistry) -> None:
    """Constraints that are made of others: their transforms are made of the others' transforms."""
    registry.register(
        constraints.independent,
        lambda c: transforms.IndependentTransform(registry(c.base_constraint), c.reinterpreted_batch_ndims),
    )
    registry.register(
        constraints.cat, lambda c: transforms.CatTransform([registry(each) for each in c.cseq], c.dim, c.lengths)
    )
    registry.register(constraints.stack, lambda c: transforms.StackTransform([registry(e) for e in c.cseq], c.dim))


for _registry in (biject_to, transform_to):
    for _constraint, _factory in BOTH.items():
        _registry.register(_constraint, _factory)
    _enlist_composed(_registry)
for _constraint, _factory in ONLY_TRANSFORM.items():
    transform_to.register(_constraint, _factory)
biject_to.register(constraints.simplex, lambda constraint: transforms.StickBreakingTransform())
