"""Probability distributions, as torch.distributions has them.

>>> import pellucid as torch
>>> torch.distributions.Normal(0.0, 2.0).variance
tensor(4.)
"""

from types import ModuleType

from pellucid.distributions import (
    categorical,
    circular,
    combined,
    constraint_registry,
    constraints,
    counts,
    gamma,
    interval,
    kl,
    location_scale,
    matrices,
    multivariate_normal,
    normal,
    pareto,
    relaxed,
    simplex,
    transforms,
    utils,
)
from pellucid.distributions.categorical import *  # noqa: F403
from pellucid.distributions.circular import *  # noqa: F403
from pellucid.distributions.combined import *  # noqa: F403
from pellucid.distributions.constraint_registry import biject_to, transform_to
from pellucid.distributions.counts import *  # noqa: F403
from pellucid.distributions.distribution import Distribution
from pellucid.distributions.exp_family import ExponentialFamily
from pellucid.distributions.gamma import *  # noqa: F403
from pellucid.distributions.interval import *  # noqa: F403
from pellucid.distributions.kl import kl_divergence, register_kl
from pellucid.distributions.location_scale import *  # noqa: F403
from pellucid.distributions.matrices import *  # noqa: F403
from pellucid.distributions.multivariate_normal import *  # noqa: F403
from pellucid.distributions.normal import *  # noqa: F403
from pellucid.distributions.pareto import *  # noqa: F403
from pellucid.distributions.relaxed import *  # noqa: F403
from pellucid.distributions.simplex import *  # noqa: F403
from pellucid.distributions.transforms import *  # noqa: F403

FAMILIES = (
    categorical, circular, combined, counts, gamma, interval, location_scale, matrices, multivariate_normal, normal,
    pareto, relaxed, simplex, transforms,
)  # fmt: skip

__all__ = [
    *(name for family in FAMILIES for name in family.__all__),
    "Distribution", "ExponentialFamily", "biject_to", "constraint_registry", "constraints", "kl", "kl_divergence",
    "register_kl", "transform_to", "utils",
]  # fmt: skip

# Where PyTorch keeps a class in a file of its own: torch.distributions.laplace is here the file that holds Laplace.
PLACES = {
    "bernoulli": counts, "beta": interval, "binomial": counts, "cauchy": location_scale, "chi2": gamma,
    "continuous_bernoulli": interval, "dirichlet": simplex, "exponential": gamma, "fishersnedecor": gamma,
    "generalized_pareto": pareto, "geometric": counts, "gumbel": location_scale, "half_cauchy": location_scale,
    "half_normal": normal, "independent": combined, "inverse_gamma": gamma, "kumaraswamy": interval,
    "laplace": location_scale, "lkj_cholesky": matrices, "log_normal": normal, "logistic_normal": simplex,
    "lowrank_multivariate_normal": multivariate_normal, "mixture_same_family": combined, "multinomial": categorical,
    "negative_binomial": counts, "one_hot_categorical": categorical, "poisson": counts, "relaxed_bernoulli": relaxed,
    "relaxed_categorical": relaxed, "studentT": location_scale, "transformed_distribution": combined,
    "uniform": interval, "von_mises": circular, "weibull": gamma, "wishart": matrices,
}  # fmt: skip


def __getattr__(name: str) -> ModuleType:
    if name not in PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return PLACES[name]
