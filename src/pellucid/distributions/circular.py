"""Directions."""

import math
from typing import Any, ClassVar

import pellucid as torch
from pellucid.distributions import constraints
from pellucid.distributions.located import Located
from pellucid.distributions.utils import broadcast_all, lazy_property

__all__ = ["VonMises"]


class VonMises(Located):
    """Directions: a normal distribution on the circle."""

    support = constraints.real
    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "concentration": constraints.positive}

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @lazy_property
    def variance(self) -> Any:  # type: ignore[override]
        """The circular variance."""
        k = self.concentration
        return 1 - torch.special.i1e(k) / torch.special.i0e(k)

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        k = self.concentration
        return k * torch.cos(value - self.loc) - math.log(2 * math.pi) - torch.special.i0e(k).log() - k

    def _proposal(self) -> Any:
        """The parameter of the wrapped Cauchy distribution that lies above, in double precision."""
        k = self.concentration.double()
        tau = 1 + (1 + 4 * k**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * k)
        return torch.where(k < 1e-5, 1 / k + k, (1 + rho**2) / (2 * rho))

    @torch.no_grad()
    def sample(self, sample_shape: Any = ()) -> Any:
        """Best and Fisher's method (1979): draws from a wrapped Cauchy distribution, rejected where it lies above."""
        shape = self._extended_shape(sample_shape)
        loc, k, r = (
            value.expand(shape) for value in (self.loc.double(), self.concentration.double(), self._proposal())
        )
        x: Any = torch.zeros(shape, dtype=torch.float64)
        done: Any = torch.zeros(shape, dtype=torch.bool)
        while not bool(done.all()):
            u1, u2, u3 = torch.rand((3, *shape), dtype=torch.float64).unbind()
            z = torch.cos(math.pi * u1)
            f = (1 + r * z) / (r + z)
            c = k * (r - f)
            accept = ((c * (2 - c) - u2) > 0) | ((c / u2).log() + 1 - c >= 0)
            x = torch.where(accept, (u3 - 0.5).sign() * f.acos(), x)
            done = done | accept
        return ((x + math.pi + loc) % (2 * math.pi) - math.pi).to(self.loc.dtype)
