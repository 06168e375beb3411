"""Divergences between distributions of two kinds.

KL(p || q) is minus the entropy of p minus the mean of log q under p. Each kind of q says what that mean is in terms of
a few expectations (of x, x^2, log x, log(1 - x), exp(-x / scale)), and each kind of p says what those are: so each
pair needs no formula of its own. Where p has values outside q's support the divergence is infinite.
"""

import math
from collections.abc import Callable
from typing import Any

import pellucid as torch
from pellucid.distributions.counts import Bernoulli, Binomial, Poisson
from pellucid.distributions.gamma import Exponential, Gamma
from pellucid.distributions.interval import Beta, ContinuousBernoulli, Uniform
from pellucid.distributions.kl.registry import register_kl
from pellucid.distributions.location_scale import Gumbel, Laplace
from pellucid.distributions.normal import Normal
from pellucid.distributions.pareto import Pareto
from pellucid.distributions.utils import EULER


def _mean_log_uniform(p: Any) -> Any:
    return (torch.xlogy(p.high, p.high) - torch.xlogy(p.low, p.low)) / (p.high - p.low) - 1


def _mean_log_rest_uniform(p: Any) -> Any:
    low, high = 1 - p.low, 1 - p.high
    return (torch.xlogy(low, low) - torch.xlogy(high, high)) / (p.high - p.low) - 1


# The mean of log x.
MEAN_LOG: dict[type, Callable[[Any], Any]] = {
    Beta: lambda p: p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma(),
    Exponential: lambda p: -EULER - p.rate.log(),
    Gamma: lambda p: p.concentration.digamma() - p.rate.log(),
    Pareto: lambda p: p.scale.log() + p.alpha.reciprocal(),
    Uniform: _mean_log_uniform,
}
# The mean of log(1 - x).
MEAN_LOG_REST: dict[type, Callable[[Any], Any]] = {Uniform: _mean_log_rest_uniform}
# The mean of exp(-x / scale).
MEAN_DECAY: dict[type, Callable[[Any, Any], Any]] = {
    Exponential: lambda p, scale: p.rate / (p.rate + scale.reciprocal()),
    Gamma: lambda p, scale: (1 + (scale * p.rate).reciprocal()).pow(-p.concentration),
    Gumbel: lambda p, scale: torch.exp(-p.loc / scale + (1 + p.scale / scale).lgamma()),
    Normal: lambda p, scale: torch.exp(-p.loc / scale + 0.5 * (p.scale / scale).pow(2)),
    Uniform: lambda p, scale: scale * (torch.exp(-p.low / scale) - torch.exp(-p.high / scale)) / (p.high - p.low),
}


def _look_up(table: dict[type, Any], p: Any) -> Any:
    return next(table[kind] for kind in type(p).__mro__ if kind in table)


def _normal(p: Any, q: Any) -> Any:
    distance = (p.variance + (p.mean - q.loc).pow(2)) / (2 * q.scale.pow(2))
    return -0.5 * math.log(2 * math.pi) - q.scale.log() - distance


def _gamma(p: Any, q: Any) -> Any:
    size = torch.xlogy(q.concentration, q.rate) - q.concentration.lgamma()
    return size + (q.concentration - 1) * _look_up(MEAN_LOG, p)(p) - q.rate * p.mean


def _gumbel(p: Any, q: Any) -> Any:
    decay = torch.exp(q.loc / q.scale) * _look_up(MEAN_DECAY, p)(p, q.scale)
    return -q.scale.log() - (p.mean - q.loc) / q.scale - decay


def _beta(p: Any, q: Any) -> Any:
    a, b = q.concentration1, q.concentration0
    size = (a + b).lgamma() - a.lgamma() - b.lgamma()
    return size + (a - 1) * _look_up(MEAN_LOG, p)(p) + (b - 1) * _look_up(MEAN_LOG_REST, p)(p)


def _laplace(p: Any, q: Any) -> Any:
    """For a normal p: the mean of |x - loc| is that of a folded normal number."""
    away = (p.loc - q.loc) / p.scale
    size = math.sqrt(2 / math.pi) * torch.exp(-0.5 * away.pow(2)) + away * torch.erf(away / math.sqrt(2))
    return -(2 * q.scale).log() - p.scale * size / q.scale


# The mean of log q under p.
MEAN_LOG_PROB: dict[type, Callable[[Any, Any], Any]] = {
    Beta: _beta,
    ContinuousBernoulli: lambda p, q: p.mean * q.logits + torch.log1p(-q.probs) + q._log_constant(),
    Exponential: lambda p, q: q.rate.log() - q.rate * p.mean,
    Gamma: _gamma,
    Gumbel: _gumbel,
    Laplace: _laplace,
    Normal: _normal,
    Pareto: lambda p, q: q.alpha.log() + torch.xlogy(q.alpha, q.scale) - (q.alpha + 1) * _look_up(MEAN_LOG, p)(p),
    Uniform: lambda p, q: -(q.high - q.low).log(),
}


def _unit(p: Any) -> tuple[Any, Any]:
    return torch.zeros(p.batch_shape), torch.ones(p.batch_shape)


# The least and the largest value of a distribution that has some.
ENDS: dict[type, Callable[[Any], tuple[Any, Any]]] = {
    Beta: _unit,
    ContinuousBernoulli: _unit,
    Exponential: lambda p: (torch.zeros(p.batch_shape), torch.tensor(math.inf)),
    Gamma: lambda p: (torch.zeros(p.batch_shape), torch.tensor(math.inf)),
    Pareto: lambda p: (p.scale, torch.tensor(math.inf)),
    Uniform: lambda p: (p.low, p.high),
}


def _outside(p: Any, q: Any) -> Any:
    """Where p has values that q cannot have, as a mask; None for a q without bounds."""
    ends = [_look_up(ENDS, side) for side in (p, q) if any(kind in ENDS for kind in type(side).__mro__)]
    if len(ends) < 2:
        return None
    (low, high), (lowest, highest) = ends[0](p), ends[1](q)
    return (low < lowest) | (high > highest)


def _measured(p: Any, q: Any) -> Any:
    result = -p.entropy() - _look_up(MEAN_LOG_PROB, q)(p, q)
    outside = _outside(p, q)
    return result if outside is None else torch.where(outside, math.inf, result)


def _infinite(p: Any, q: Any) -> Any:
    """p has values that q never has."""
    return torch.full(torch.broadcast_shapes(p.batch_shape, q.batch_shape), math.inf, dtype=p.mean.dtype)


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Any, q: Any) -> Any:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


BOUNDED = (Beta, ContinuousBernoulli, Pareto, Uniform)
FINITE = {
    Beta: (ContinuousBernoulli, Exponential, Gamma, Normal, Uniform),
    ContinuousBernoulli: (Exponential, Normal, Uniform),
    Exponential: (Gamma, Gumbel, Normal),
    Gamma: (Exponential, Gumbel, Normal),
    Gumbel: (Gumbel, Normal),
    Laplace: (Normal,),
    Normal: (Gumbel, Laplace),
    Pareto: (Exponential, Gamma, Normal, Pareto),
    Uniform: (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Normal, Pareto),
}
INFINITE = {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: BOUNDED,
    Gamma: BOUNDED,
    Gumbel: (*BOUNDED, Exponential, Gamma),
    Laplace: (*BOUNDED, Exponential, Gamma),
    Normal: (*BOUNDED, Exponential, Gamma),
    Pareto: (Beta, ContinuousBernoulli, Uniform),
    Poisson: (Bernoulli, Binomial),
}
for _table, _formula in ((FINITE, _measured), (INFINITE, _infinite)):
    for _p, _kinds in _table.items():
        for _q in _kinds:
            register_kl(_p, _q)(_formula)
