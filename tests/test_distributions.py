"""Distributions: densities, moments, entropies and divergences are PyTorch's; samples have the right moments."""

import numpy as np
import pytest

import pellucid

V = [0.3, 1.2, 2.5]
ARGUMENTS = {
    "Normal": ((V, [0.5, 1.0, 2.0]), [0.1, -1.0, 3.0]),
    "LogNormal": ((V, [0.5, 1.0, 0.7]), [0.1, 1.0, 3.0]),
    "Laplace": ((V, [0.5, 1.0, 2.0]), [0.1, -1.0, 3.0]),
    "Cauchy": ((V, [0.5, 1.0, 2.0]), [0.1, -1.0, 3.0]),
    "Gumbel": ((V, [0.5, 1.0, 2.0]), [0.1, -1.0, 3.0]),
    "Uniform": ((V, [1.0, 2.0, 4.0]), [0.5, 1.5, 2.6]),
    "Exponential": ((V,), [0.1, 1.0, 3.0]),
    "Gamma": ((V, [0.5, 1.0, 2.0]), [0.1, 1.0, 3.0]),
    "InverseGamma": ((V, [0.5, 1.0, 2.0]), [0.1, 1.0, 3.0]),
    "Chi2": ((V,), [0.1, 1.0, 3.0]),
    "Beta": ((V, [0.5, 1.0, 2.0]), [0.1, 0.5, 0.9]),
    "Dirichlet": ((V,), [0.2, 0.3, 0.5]),
    "StudentT": (([2.5, 3.5, 9.0], V, [0.5, 1.0, 2.0]), [0.1, -1.0, 3.0]),
    "HalfNormal": ((V,), [0.1, 1.0, 3.0]),
    "HalfCauchy": ((V,), [0.1, 1.0, 3.0]),
    "Weibull": ((V, [0.5, 1.0, 2.0]), [0.1, 1.0, 3.0]),
    "Pareto": ((V, [2.5, 3.0, 4.0]), [1.0, 2.0, 3.0]),
    "Kumaraswamy": ((V, [0.5, 1.0, 2.0]), [0.1, 0.5, 0.9]),
    "VonMises": ((V, [0.5, 1.0, 2.0]), [0.1, 0.5, 0.9]),
    "Bernoulli": (([0.1, 0.5, 0.9],), [1.0, 0.0, 1.0]),
    "Geometric": (([0.1, 0.5, 0.9],), [1.0, 0.0, 3.0]),
    "Poisson": ((V,), [1.0, 0.0, 3.0]),
    "Binomial": (([4.0, 4.0, 4.0], [0.1, 0.5, 0.9]), [1.0, 0.0, 3.0]),
    "NegativeBinomial": (([4.0, 4.0, 4.0], [0.1, 0.5, 0.9]), [1.0, 0.0, 3.0]),
    "Categorical": (([[0.1, 0.4, 0.5], [0.2, 0.2, 0.6]],), [2, 0]),
    "OneHotCategorical": (([0.1, 0.4, 0.5],), [0.0, 1.0, 0.0]),
    "MultivariateNormal": (([0.5, -1.0], [[2.0, 0.3], [0.3, 1.0]]), [0.1, 0.2]),
}
MOMENTS = ("mean", "variance", "stddev", "mode")


def built(library, name, requires_grad=False):
    values = ARGUMENTS[name][0]
    tensors = [library.tensor(v, dtype=library.float64, requires_grad=requires_grad) for v in values]
    return getattr(library.distributions, name)(*tensors), tensors


def same(mine, theirs, tolerance=1e-8):
    np.testing.assert_allclose(mine.detach().numpy(), theirs.detach().numpy(), tolerance, tolerance)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_density_moments_entropy(name, torch):
    seen = []
    for library in (pellucid, torch):
        distribution, leaves = built(library, name, requires_grad=True)
        value = library.tensor(ARGUMENTS[name][1])
        value = value if name == "Categorical" else value.double()
        log_prob = distribution.log_prob(value)
        log_prob.sum().backward()
        seen.append((distribution, log_prob, [leaf.grad for leaf in leaves if leaf.grad is not None]))
    (ours, p, gradients), (theirs, q, expected) = seen
    loose = 1e-6 if name == "VonMises" else 1e-8  # PyTorch's Bessel functions are right to 1e-7
    same(p, q, loose)
    for mine, other in zip(gradients, expected, strict=True):
        same(mine, other, 1e-6)
    assert tuple(ours.batch_shape) == tuple(theirs.batch_shape) and tuple(ours.event_shape) == tuple(theirs.event_shape)
    for what in (*MOMENTS, "entropy"):
        try:
            other = getattr(theirs, what)() if what == "entropy" else getattr(theirs, what)
        except NotImplementedError:
            continue
        if name == "Kumaraswamy" and what == "mode":
            continue  # PyTorch's is NaN by accident
        mine = getattr(ours, what)() if what == "entropy" else getattr(ours, what)
        same(mine, other, max(loose, 1e-7))


@pytest.mark.parametrize(
    "name", sorted(ARGUMENTS.keys() - {"VonMises", "Cauchy", "HalfCauchy", "Categorical", "Kumaraswamy"})
)
def test_samples_have_the_right_mean(name):
    pellucid.manual_seed(0)
    distribution, _ = built(pellucid, name)
    sample = distribution.sample((20_000,))
    assert tuple(sample.shape) == (20_000, *distribution.batch_shape, *distribution.event_shape)
    wide = np.isfinite(distribution.variance.numpy())
    away = np.abs(sample.numpy().mean(0) - distribution.mean.numpy())[wide]
    assert (away <= 6 * np.sqrt(distribution.variance.numpy()[wide] / 20_000) + 1e-9).all()


@pytest.mark.parametrize("name", ["Normal", "Laplace", "Uniform", "Exponential", "Gumbel", "Bernoulli", "Categorical"])
def test_samples_are_pytorchs(name, torch):
    drawn = []
    for library in (pellucid, torch):
        library.manual_seed(4)
        drawn.append(built(library, name)[0].sample((5,)).numpy())
    np.testing.assert_allclose(*drawn, 1e-12)


PAIRS = ["Normal", "LogNormal", "Laplace", "Exponential", "Gamma", "Beta", "Dirichlet", "Bernoulli", "Categorical",
         "Geometric", "Poisson", "Binomial", "MultivariateNormal", "OneHotCategorical"]  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_divergence(name, torch):
    found = []
    for library in (pellucid, torch):
        p, leaves = built(library, name)
        moved = [leaf if name == "Binomial" and i == 0 else leaf * 0.9 for i, leaf in enumerate(leaves)]
        q = getattr(library.distributions, name)(*moved)
        found.append(library.distributions.kl_divergence(p, q))
    same(*found)


def test_rsample_carries_gradients():
    pellucid.manual_seed(0)
    k = pellucid.tensor([0.7, 3.0], dtype=pellucid.float64, requires_grad=True)
    sample = pellucid.distributions.Gamma(k, 2.0).rsample((20_000,))
    sample.mean(0).sum().backward()
    np.testing.assert_allclose(k.grad.numpy(), [0.5, 0.5], rtol=0.05)


def test_transformed_and_independent(torch):
    found = []
    for library in (pellucid, torch):
        d = library.distributions
        base = d.Normal(library.zeros(2, 3).double(), library.ones(2, 3).double())
        steps = [d.transforms.AffineTransform(0.5, 2.0), d.transforms.TanhTransform()]
        value = library.tensor([[0.1, 0.2, -0.3], [0.5, 0.0, 0.9]], dtype=library.float64)
        transformed = d.TransformedDistribution(base, steps)
        found.append((transformed.log_prob(value), d.Independent(transformed, 1).log_prob(value)))
    for mine, theirs in zip(*found, strict=True):
        same(mine, theirs)


def test_bad_parameters_are_refused():
    with pytest.raises(ValueError, match=r"parameter scale[\s\S]*GreaterThan"):
        pellucid.distributions.Normal(0.0, -1.0)
    with pytest.raises(ValueError, match="support"):
        pellucid.distributions.Beta(1.0, 1.0).log_prob(pellucid.tensor(2.0))
    with pytest.raises(NotImplementedError, match="Normal and q type Beta"):
        pellucid.distributions.kl_divergence(
            pellucid.distributions.Normal(0.0, 1.0), pellucid.distributions.Beta(1.0, 1.0)
        )
