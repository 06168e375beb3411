"""Shares that sum to 1."""

from typing import Any, ClassVar

import pellucid as torch
from pellucid.autograd import Function
from pellucid.distributions import constraints
from pellucid.distributions.combined import TransformedDistribution
from pellucid.distributions.exp_family import ExponentialFamily
from pellucid.distributions.normal import Normal
from pellucid.distributions.transforms import StickBreakingTransform

__all__ = ["Dirichlet", "LogisticNormal"]


class _Dirichlet(Function):
    """Draws whose gradient says how they move when the concentration does and their place in the distribution stays."""

    @staticmethod
    def forward(ctx: Any, concentration: Any) -> Any:
        shares = torch._sample_dirichlet(concentration)
        ctx.save_for_backward(shares, concentration)
        return shares

    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        shares, concentration = ctx.saved_tensors
        slope = torch._dirichlet_grad(shares, concentration, concentration.sum(-1, True).expand_as(concentration))
        return slope * (grad_output - (shares * grad_output).sum(-1, True))


class Dirichlet(ExponentialFamily):
    """Shares that sum to 1.

    >>> Dirichlet(torch.tensor([2.0, 2.0])).mean
    tensor([0.5000, 0.5000])
    """

    has_rsample = True
    support = constraints.simplex
    arg_constraints: ClassVar[Any] = {"concentration": constraints.independent(constraints.positive, 1)}

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)

    @property
    def mean(self) -> Any:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Any:
        above = (self.concentration - 1).clamp(min=0.0)
        corner = torch.nn.functional.one_hot(above.argmax(-1), above.shape[-1]).to(above)
        return torch.where((self.concentration < 1).all(-1, True), corner, above / above.sum(-1, True))

    @property
    def variance(self) -> Any:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return _Dirichlet.apply(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        k = self.concentration
        return torch.xlogy(k - 1.0, value).sum(-1) + torch.lgamma(k.sum(-1)) - torch.lgamma(k).sum(-1)

    def entropy(self) -> Any:
        count, k = self.concentration.size(-1), self.concentration
        total = k.sum(-1)
        return (
            torch.lgamma(k).sum(-1) - torch.lgamma(total) - (count - total) * torch.digamma(total)
            - ((k - 1.0) * torch.digamma(k)).sum(-1)
        )  # fmt: skip

    @property
    def _natural_params(self) -> Any:
        return (self.concentration,)

    def _log_normalizer(self, x: Any) -> Any:
        return x.lgamma().sum(-1) - torch.lgamma(x.sum(-1))


class LogisticNormal(TransformedDistribution):
    """Shares that sum to 1, made of normal numbers by breaking a stick."""

    has_rsample = True
    support = constraints.simplex
    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        super().__init__(base if base.batch_shape else base.expand((1,)), StickBreakingTransform(), validate_args)

    loc = property(lambda self: self.base_dist.base_dist.loc)
    scale = property(lambda self: self.base_dist.base_dist.scale)
