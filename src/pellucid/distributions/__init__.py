"""Probability distributions, as torch.distributions has them.

>>> import pellucid as torch
>>> torch.distributions.Normal(0.0, 2.0).variance
tensor(4.)
"""

from types import ModuleType

from pellucid.distributions import constraints, continuous, discrete, kl, multivariate, relaxed, transforms
from pellucid.distributions.continuous import *  # noqa: F403
from pellucid.distributions.discrete import *  # noqa: F403
from pellucid.distributions.distribution import Distribution
from pellucid.distributions.kl import kl_divergence, register_kl
from pellucid.distributions.multivariate import *  # noqa: F403
from pellucid.distributions.relaxed import *  # noqa: F403
from pellucid.distributions.transforms import *  # noqa: F403

__all__ = [
    *continuous.__all__, *discrete.__all__, *multivariate.__all__, *relaxed.__all__, *transforms.__all__,
    "Distribution", "constraints", "kl", "kl_divergence", "register_kl",
]  # fmt: skip

# Where PyTorch keeps each class: torch.distributions.normal is here the file that holds Normal.
PLACES = {
    **dict.fromkeys((
        "beta", "cauchy", "chi2", "dirichlet", "exponential", "gamma", "gumbel", "half_cauchy", "half_normal",
        "inverse_gamma", "kumaraswamy", "laplace", "log_normal", "normal", "pareto", "studentT", "uniform",
        "von_mises", "weibull",
    ), continuous),
    **dict.fromkeys((
        "bernoulli", "binomial", "categorical", "geometric", "multinomial", "negative_binomial", "one_hot_categorical",
        "poisson",
    ), discrete),
    **dict.fromkeys((
        "independent", "mixture_same_family", "multivariate_normal", "transformed_distribution",
    ), multivariate),
    **dict.fromkeys((
        "fishersnedecor", "logistic_normal", "relaxed_bernoulli", "relaxed_categorical",
    ), relaxed),
    "constraint_registry": constraints,
}  # fmt: skip


def __getattr__(name: str) -> ModuleType:
    if name not in PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return PLACES[name]
