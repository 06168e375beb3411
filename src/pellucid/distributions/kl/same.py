"""Divergences between two distributions of one kind."""

import math
from typing import Any

import pellucid as torch
from pellucid.distributions.categorical import Categorical, OneHotCategorical
from pellucid.distributions.combined import Independent, TransformedDistribution
from pellucid.distributions.counts import Bernoulli, Binomial, Geometric, Poisson
from pellucid.distributions.exp_family import ExponentialFamily
from pellucid.distributions.gamma import Exponential, Gamma
from pellucid.distributions.interval import Beta, ContinuousBernoulli, Uniform
from pellucid.distributions.kl.registry import kl_divergence, register_kl
from pellucid.distributions.location_scale import Cauchy, Laplace
from pellucid.distributions.multivariate_normal import (
    LowRankMultivariateNormal,
    MultivariateNormal,
    half_log_determinant,
    mahalanobis,
)
from pellucid.distributions.normal import HalfNormal, Normal
from pellucid.distributions.simplex import Dirichlet
from pellucid.distributions.utils import sum_rightmost


@register_kl(Normal, Normal)
def _normal(p: Any, q: Any) -> Any:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: Any, q: Any) -> Any:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Any:
    ratio, away = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + away / q.scale + ratio * torch.exp(-away / p.scale) - 1


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Any, q: Any) -> Any:
    sizes = (p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)
    return sizes.log() - (4 * p.scale * q.scale).log()


@register_kl(Uniform, Uniform)
def _uniform(p: Any, q: Any) -> Any:
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return torch.where((q.low > p.low) | (q.high < p.high), math.inf, result)


@register_kl(Exponential, Exponential)
def _exponential(p: Any, q: Any) -> Any:
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(Gamma, Gamma)
def _gamma(p: Any, q: Any) -> Any:
    return (
        q.concentration * (p.rate / q.rate).log() + torch.lgamma(q.concentration) - torch.lgamma(p.concentration)
        + (p.concentration - q.concentration) * torch.digamma(p.concentration)
        + (q.rate - p.rate) * (p.concentration / p.rate)
    )  # fmt: skip


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    sizes = total.lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    return sizes + ((a - b) * (a.digamma() - total.digamma().unsqueeze(-1))).sum(-1)


@register_kl(Beta, Beta)
def _beta(p: Any, q: Any) -> Any:
    return _dirichlet(p._dirichlet, q._dirichlet)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: Any, q: Any) -> Any:
    moved = p.mean * (p.logits - q.logits)
    return moved + p._log_constant() + torch.log1p(-p.probs) - q._log_constant() - torch.log1p(-q.probs)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Any:
    softplus = torch.nn.functional.softplus
    one = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    one = torch.where(q.probs == 0, math.inf, one)
    one = torch.where(p.probs == 0, 0.0, one)
    zero = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    zero = torch.where(q.probs == 1, math.inf, zero)
    zero = torch.where(p.probs == 1, 0.0, zero)
    return one + zero


@register_kl(Binomial, Binomial)
def _binomial(p: Any, q: Any) -> Any:
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    result = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return torch.where(p.total_count > q.total_count, math.inf, result)


@register_kl(Categorical, Categorical)
def _categorical(p: Any, q: Any) -> Any:
    terms = p.probs * (p.logits - q.logits)
    terms = torch.where((q.probs == 0).expand(terms.shape), math.inf, terms)
    return torch.where((p.probs == 0).expand(terms.shape), 0.0, terms).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: Any, q: Any) -> Any:
    return _categorical(p._categorical, q._categorical)


@register_kl(Geometric, Geometric)
def _geometric(p: Any, q: Any) -> Any:
    return -p.entropy() - torch.log1p(-q.probs) / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _poisson(p: Any, q: Any) -> Any:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_family(p: Any, q: Any) -> Any:
    """The Bregman divergence of the normaliser, for every kind that has no formula of its own."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed using Bregman "
            "divergences"
        )
    natural, normaliser, means = p._mean_statistics()
    other = q._natural_params
    result = q._log_normalizer(*other) - normaliser
    for mine, theirs, mean in zip(natural, other, means, strict=True):
        result = result - sum_rightmost((theirs - mine) * mean, len(q.event_shape))
    return result


def _distance(p: Any, q: Any, p_factor: Any, q_factor: Any, q_away: Any) -> Any:
    """trace(q's precision @ p's covariance) + the squared distance of the means - the number of dimensions, halved."""
    shape = torch.broadcast_shapes(p.batch_shape, q.batch_shape)
    n = p.event_shape[0]
    solved = torch.linalg.solve_triangular(
        q_factor.expand((*shape, n, n)), p_factor.expand((*shape, n, n)), upper=False
    )
    return 0.5 * (solved.pow(2).sum((-2, -1)) + q_away - n)


def _same_events(p: Any, q: Any, names: str) -> None:
    if p.event_shape != q.event_shape:
        raise ValueError(f"KL-divergence between two {names} with different event shapes cannot be computed")


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate(p: Any, q: Any) -> Any:
    _same_events(p, q, "Multivariate Normals")
    mine, other = p._unbroadcasted_scale_tril, q._unbroadcasted_scale_tril
    half = half_log_determinant(other) - half_log_determinant(mine)
    return half + _distance(p, q, mine, other, mahalanobis(other, q.loc - p.loc))


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _low_rank(p: Any, q: Any) -> Any:
    _same_events(p, q, "(Low Rank) Multivariate Normals")
    half = half_log_determinant(q.scale_tril) - half_log_determinant(p.scale_tril)
    return half + _distance(p, q, p.scale_tril, q.scale_tril, mahalanobis(q.scale_tril, q.loc - p.loc))


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: Any, q: Any) -> Any:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    extra = len(p.event_shape) - len(p.base_dist.event_shape)
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), extra)
