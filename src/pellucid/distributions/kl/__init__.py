"""kl_divergence: how far one distribution is from another. Each pair of kinds has one formula.

>>> import pellucid as torch
>>> from pellucid.distributions import Normal
>>> kl_divergence(Normal(0.0, 1.0), Normal(1.0, 1.0))
tensor(0.5000)
"""

from pellucid.distributions.kl import mixed, same
from pellucid.distributions.kl.registry import kl_divergence, register_kl

__all__ = ["kl_divergence", "mixed", "register_kl", "same"]
