"""Probability distributions, as torch.distributions has them.

>>> import pellucid as torch
>>> torch.distributions.Normal(0.0, 2.0).variance
tensor(4.)
"""

from pellucid.distributions import constraints, continuous, discrete, kl, multivariate, transforms
from pellucid.distributions.continuous import *  # noqa: F403
from pellucid.distributions.discrete import *  # noqa: F403
from pellucid.distributions.distribution import Distribution
from pellucid.distributions.kl import kl_divergence, register_kl
from pellucid.distributions.multivariate import *  # noqa: F403
from pellucid.distributions.transforms import *  # noqa: F403

__all__ = [
    *continuous.__all__, *discrete.__all__, *multivariate.__all__, *transforms.__all__, "Distribution", "constraints",
    "kl", "kl_divergence", "register_kl",
]  # fmt: skip
