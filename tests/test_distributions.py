"""Distributions: densities, moments, entropies, divergences, samples and their gradients are PyTorch's."""

import warnings

import numpy as np
import pytest

import pellucid

V, S = [0.3, 1.2, 2.5], [0.5, 1.0, 2.0]
DEFINITE = [[2.0, 0.3], [0.3, 1.0]]
TRIANGLE = [[2.0, 0.0], [0.3, 1.0]]
# Kind and name of a case: arguments, keyword arguments, a value. Lists and floats become float64 tensors.
CASES = {
    "Normal": ([V, S], {}, [0.1, -1.0, 3.0]),
    "LogNormal": ([V, [0.5, 1.0, 0.7]], {}, [0.1, 1.0, 3.0]),
    "HalfNormal": ([V], {}, [0.1, 1.0, 3.0]),
    "Laplace": ([V, S], {}, [0.1, -1.0, 3.0]),
    "Cauchy": ([V, S], {}, [0.1, -1.0, 3.0]),
    "HalfCauchy": ([V], {}, [0.1, 1.0, 3.0]),
    "Gumbel": ([V, S], {}, [0.1, -1.0, 3.0]),
    "StudentT": ([[2.5, 3.5, 0.9], V, S], {}, [0.1, -1.0, 3.0]),
    "VonMises": ([V, S], {}, [0.1, 0.5, 0.9]),
    "Uniform": ([V, [1.0, 2.0, 4.0]], {}, [0.5, 1.5, 2.6]),
    "Exponential": ([V], {}, [0.1, 1.0, 3.0]),
    "Gamma": ([V, S], {}, [0.1, 1.0, 3.0]),
    "InverseGamma": ([V, S], {}, [0.1, 1.0, 3.0]),
    "Chi2": ([V], {}, [0.1, 1.0, 3.0]),
    "Weibull": ([V, S], {}, [0.1, 1.0, 3.0]),
    "FisherSnedecor": ([[1.0, 3.0, 5.0], [3.0, 5.0, 9.0]], {}, [0.1, 1.0, 3.0]),
    "Pareto": ([V, [2.5, 1.5, 0.7]], {}, [1.0, 2.0, 3.0]),
    "Beta": ([V, S], {}, [0.1, 0.5, 0.9]),
    "Kumaraswamy": ([V, S], {}, [0.1, 0.5, 0.9]),
    "ContinuousBernoulli": ([[0.1, 0.5, 0.9]], {}, [0.1, 0.5, 0.9]),
    "ContinuousBernoulli logits": ([], {"logits": [-2.0, 0.0, 1.0]}, [0.1, 0.5, 0.9]),
    "Dirichlet": ([[V, [2.0, 3.0, 4.0]]], {}, [[0.2, 0.3, 0.5], [0.2, 0.2, 0.6]]),
    "LogisticNormal": ([V, S], {}, [0.1, 0.2, 0.3, 0.4]),
    "MultivariateNormal": ([[0.5, -1.0], DEFINITE], {}, [0.1, 0.2]),
    "MultivariateNormal precision": ([[0.5, -1.0]], {"precision_matrix": DEFINITE}, [0.1, 0.2]),
    "MultivariateNormal factor": ([[[0.5, -1.0], [0.0, 1.0]]], {"scale_tril": TRIANGLE}, [0.1, 0.2]),
    "LowRankMultivariateNormal": ([[[0.5, -1.0, 2.0], [0.0, 0.0, 0.0]], [[1.0], [0.5], [0.2]], S], {}, [0.1, 0.2, 0.3]),
    "Wishart": ([4.0, DEFINITE], {}, [[2.0, 0.1], [0.1, 3.0]]),
    "Wishart precision": ([[4.0, 5.0]], {"precision_matrix": DEFINITE}, [[2.0, 0.1], [0.1, 3.0]]),
    "LKJCholesky": ([3, [1.0, 2.5]], {}, [[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.6, 0.0, 0.8]]),
    "Bernoulli": ([[0.1, 0.5, 0.9]], {}, [1.0, 0.0, 1.0]),
    "Bernoulli logits": ([], {"logits": [-2.0, 0.0, 1.0]}, [1.0, 0.0, 1.0]),
    "Geometric": ([[0.1, 0.5, 0.9]], {}, [1.0, 0.0, 3.0]),
    "Poisson": ([V], {}, [1.0, 0.0, 3.0]),
    "Binomial": ([4, [0.1, 0.5, 0.9]], {}, [1.0, 0.0, 3.0]),
    "NegativeBinomial": ([[4.0, 2.0, 3.0], [0.1, 0.5, 0.9]], {}, [1.0, 0.0, 3.0]),
    "Categorical": ([[[0.1, 0.4, 0.5], [0.2, 0.2, 0.6]]], {}, [2, 0]),
    "Categorical logits": ([], {"logits": [[0.1, 0.4, 0.5], [0.2, 0.2, 0.6]]}, [2, 0]),
    "OneHotCategorical": ([[0.1, 0.4, 0.5]], {}, [0.0, 1.0, 0.0]),
    "OneHotCategoricalStraightThrough": ([[0.1, 0.4, 0.5]], {}, [0.0, 1.0, 0.0]),
    "Multinomial": ([4, [0.1, 0.4, 0.5]], {}, [1.0, 2.0, 1.0]),
    "RelaxedBernoulli": ([0.7, [0.1, 0.5, 0.9]], {}, [0.2, 0.3, 0.7]),
    "RelaxedOneHotCategorical": ([0.7, [0.1, 0.4, 0.5]], {}, [0.2, 0.3, 0.5]),
}


def seeded(library, distribution, method, *shape):
    library.manual_seed(4)
    return getattr(distribution, method)(*shape)


def larger(distribution):
    return distribution.expand((2, *distribution.batch_shape))


# What is asked of a distribution: a function of (library, distribution, value).
QUESTIONS = {
    **{name: lambda _, d, v, name=name: getattr(d, name) for name in ("mean", "mode", "variance", "stddev")},
    "log_prob": lambda _, d, v: d.log_prob(v),
    "cdf": lambda _, d, v: d.cdf(v),
    "icdf": lambda library, d, v: d.icdf(library.tensor([0.2, 0.5, 0.7], dtype=library.float64)),
    "entropy": lambda _, d, v: d.entropy(),
    "enumerate_support": lambda _, d, v: d.enumerate_support(),
    "covariance_matrix": lambda _, d, v: d.covariance_matrix,
    "precision_matrix": lambda _, d, v: d.precision_matrix,
    "scale_tril": lambda _, d, v: d.scale_tril,
    "shapes": lambda _, d, v: (tuple(d.batch_shape), tuple(d.event_shape), d.has_rsample, d.has_enumerate_support),
    "text": lambda _, d, v: (repr(d), repr(d.support)),
    "sample": lambda library, d, v: seeded(library, d, "sample", (3,)),
    "rsample": lambda library, d, v: seeded(library, d, "rsample", (3,)),
    "expanded": lambda _, d, v: larger(d).log_prob(v),
    "expanded mean": lambda _, d, v: larger(d).mean,
    "expanded sample": lambda library, d, v: seeded(library, larger(d), "sample", (3,)),
    "a number": lambda _, d, v: d.log_prob(1.0) if type(d).__name__ != "Gamma" else None,
    "wrong shape": lambda library, d, v: d.log_prob(library.ones(7, 5, dtype=library.float64)),
    "outside": lambda library, d, v: d.log_prob(library.full(tuple(d.batch_shape + d.event_shape), -5.5).double()),
    "divergence": lambda library, d, v: library.distributions.kl_divergence(d, d),
}
DIFFERENTIATED = ("log_prob", "cdf", "icdf", "entropy", "mean", "variance", "rsample")
# PyTorch takes Wishart's sound samples for singular ones and draws all of them again, ten times.
DIFFERENT = {("Wishart", name) for name in ("sample", "rsample", "expanded sample")}


def built(library, name):
    positional, named, value = CASES[name]
    leaves = []

    def parameter(given):
        if isinstance(given, int):
            return given
        leaves.append(library.tensor(given, dtype=library.float64, requires_grad=True))
        return leaves[-1]

    kind = getattr(library.distributions, name.split()[0])
    made = kind(*map(parameter, positional), **{key: parameter(given) for key, given in named.items()})
    whole = name.startswith("Categorical")
    return made, leaves, library.tensor(value, dtype=library.int64 if whole else library.float64)


def answer(library, name, question):
    """What a library answers, and the gradients of that; or the class of the error."""
    distribution, leaves, value = built(library, name)
    try:
        found = QUESTIONS[question](library, distribution, value)
        if question not in DIFFERENTIATED or not found.requires_grad:
            return found, []
        weights = library.arange(1, found.numel() + 1, dtype=library.float64).reshape(tuple(found.shape))
        return found, library.autograd.grad((found * weights).sum(), leaves, allow_unused=True)
    except Exception as problem:
        return type(problem).__name__, []


def same(mine, theirs, tolerance=1e-8):
    assert str(mine.dtype) == str(theirs.dtype)
    np.testing.assert_allclose(mine.detach().numpy(), theirs.detach().numpy(), tolerance, tolerance)


def same_gradient(mine, theirs, tolerance):
    if mine is None or theirs is None:  # an unused leaf: a zero is as good
        other = theirs if mine is None else mine
        assert other is None or not other.numpy().any()
    else:
        same(mine, theirs, tolerance)


@pytest.mark.parametrize("name", CASES)
def test_answers_are_pytorchs(name, torch):
    loose = 1e-6 if name == "VonMises" else 1e-8  # PyTorch's Bessel functions are right to 1e-7
    for question in QUESTIONS:
        if (name.split()[0], question) in DIFFERENT:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            (mine, gradients), (theirs, expected) = (answer(library, name, question) for library in (pellucid, torch))
        if not isinstance(theirs, torch.Tensor):
            assert mine == theirs, question
            continue
        same(mine, theirs, loose)
        # PyTorch's gradient of a gamma or beta draw is an approximation; ours is a difference of exact inverses
        for one, two in zip(gradients, expected, strict=True):
            same_gradient(one, two, 2e-3 if question == "rsample" else max(loose, 1e-7))


def test_golden():
    """A few numbers known by other means."""
    d, tensor = pellucid.distributions, pellucid.tensor
    found = [
        d.Normal(0.0, 1.0).log_prob(tensor(0.0)), d.Poisson(2.0).log_prob(tensor(0.0)),
        d.Beta(2.0, 2.0).log_prob(tensor(0.5)), d.LKJCholesky(2).log_prob(pellucid.eye(2)),
        d.GeneralizedPareto(0.0, 2.0, 0.0).log_prob(tensor(0.0)), d.ContinuousBernoulli(0.5).log_prob(tensor(0.3)),
        d.Wishart(2.0, pellucid.eye(1)).log_prob(tensor([[2.0]])), d.VonMises(0.0, 1e-6).log_prob(tensor(1.0)),
    ]  # fmt: skip
    expected = [-0.9189385, -2.0, 0.4054651, -0.6931472, -0.6931472, 0.0, -1.6931472, -1.8378771]
    np.testing.assert_allclose([float(value) for value in found], expected, 1e-4, 1e-6)


@pytest.mark.parametrize("name", ["Gamma", "Dirichlet", "NegativeBinomial", "Binomial", "VonMises", "Wishart"])
def test_samples_have_the_right_mean(name):
    pellucid.manual_seed(0)
    distribution, _, _ = built(pellucid, name)
    sample = distribution.sample((4_000,)).numpy()
    if name == "VonMises":  # the mean of directions is that of their cosines and sines
        away = np.arctan2(np.sin(sample).mean(0), np.cos(sample).mean(0)) - V
        assert (np.abs(away) < 0.2).all()
        return
    away = np.abs(sample.mean(0) - distribution.mean.detach().numpy())
    assert (away <= 6 * np.sqrt(distribution.variance.detach().numpy() / 4_000) + 1e-9).all()


def test_draws_leave_the_generator_where_single_draws_do():
    shape = pellucid.full((50,), 0.7)
    pellucid.manual_seed(0)
    together = pellucid._standard_gamma(shape)
    after = pellucid.rand(1)
    pellucid.manual_seed(0)
    alone = pellucid.stack([pellucid._standard_gamma(one) for one in shape])
    assert pellucid.equal(together, alone) and pellucid.equal(after, pellucid.rand(1))


def test_rsample_carries_gradients():
    pellucid.manual_seed(0)
    k = pellucid.tensor([0.7, 3.0], dtype=pellucid.float64, requires_grad=True)
    pellucid.distributions.Gamma(k, 2.0).rsample((4_000,)).mean(0).sum().backward()
    np.testing.assert_allclose(k.grad.numpy(), [0.5, 0.5], rtol=0.1)


# Two distributions of each kind: i = 0, 1.
PAIRED = {
    "Bernoulli": lambda d, t, i: d.Bernoulli(t([0.3, 0.6]) * (1 - 0.1 * i)),
    "Beta": lambda d, t, i: d.Beta(t([0.7, 2.0]) * (1 + 0.3 * i), t([1.5, 0.6])),
    "Binomial": lambda d, t, i: d.Binomial(3, t([0.3, 0.6]) * (1 - 0.1 * i)),
    "Categorical": lambda d, t, i: d.Categorical(t([0.3, 0.7 - 0.2 * i])),
    "Cauchy": lambda d, t, i: d.Cauchy(t([0.7, 2.0]) * (1 + 0.3 * i), t([1.5, 0.6])),
    "ContinuousBernoulli": lambda d, t, i: d.ContinuousBernoulli(t([0.3, 0.7 - 0.2 * i])),
    "Dirichlet": lambda d, t, i: d.Dirichlet(t([0.3, 0.7 + i])),
    "Exponential": lambda d, t, i: d.Exponential(t([0.3, 0.7 + i])),
    "ExponentialFamily": lambda d, t, i: d.Wishart(t(3.0) + i, t([[1.5, 0.3], [0.3, 0.6 + i]])),
    "Gamma": lambda d, t, i: d.Gamma(t([0.7, 2.0]) * (1 + 0.3 * i), t([1.5, 0.6])),
    "Geometric": lambda d, t, i: d.Geometric(t([0.3, 0.7 - 0.2 * i])),
    "Gumbel": lambda d, t, i: d.Gumbel(t([0.7, 2.0]) * (1 + 0.3 * i), t([1.5, 0.6])),
    "HalfNormal": lambda d, t, i: d.HalfNormal(t([0.3, 0.7 + i])),
    "Independent": lambda d, t, i: d.Independent(d.Normal(t([0.7, 2.0]) * (1 + 0.3 * i), t([1.5, 0.6])), 1),
    "Laplace": lambda d, t, i: d.Laplace(t([0.7, 2.0]) * (1 + 0.3 * i), t([1.5, 0.6])),
    "LowRankMultivariateNormal": lambda d, t, i: d.LowRankMultivariateNormal(
        t([0.7, 2.0]) * (1 + 0.3 * i), t([[1.5], [0.6]]), t([0.6, 0.8 + i])
    ),
    "MultivariateNormal": lambda d, t, i: d.MultivariateNormal(t([0.7, 2.0]), t([[1.5, 0.3], [0.3, 0.6 + i]])),
    "Normal": lambda d, t, i: d.Normal(t([0.7, 2.0]) * (1 + 0.3 * i), t([1.5, 0.6])),
    "OneHotCategorical": lambda d, t, i: d.OneHotCategorical(t([0.3, 0.7 - 0.2 * i])),
    "Pareto": lambda d, t, i: d.Pareto(t([0.7, 2.0]) * (1 - 0.3 * i), t([2.5, 1.6])),
    "Poisson": lambda d, t, i: d.Poisson(t([0.3, 0.7 + i])),
    "TransformedDistribution": lambda d, t, i: d.LogNormal(t([0.7, 2.0]) * (1 + 0.3 * i), t([1.5, 0.6])),
    "Uniform": lambda d, t, i: d.Uniform(t([0.2, 0.3]) - 0.1 * i, t([0.6, 0.8]) + 0.1 * i),
}


def test_every_divergence_pytorch_has(torch):
    from torch.distributions.kl import _KL_REGISTRY

    for p, q in _KL_REGISTRY:
        found = []
        for library in (pellucid, torch):
            d = library.distributions
            pair = (
                PAIRED[kind.__name__](d, lambda value, library=library: library.tensor(value, dtype=library.float64), i)
                for i, kind in enumerate((p, q))
            )
            found.append(d.kl_divergence(*pair))
        same(*found)


def test_bad_input_is_refused():
    d, tensor = pellucid.distributions, pellucid.tensor
    for kind, refused, words in [
        (ValueError, lambda: d.Normal(0.0, -1.0), r"parameter scale[\s\S]*GreaterThan"),
        (ValueError, lambda: d.Uniform(2.0, 1.0), r"parameter low[\s\S]*LessThan"),
        (ValueError, lambda: d.Beta(1.0, 1.0).log_prob(tensor(2.0)), "support"),
        (ValueError, lambda: d.Normal(tensor([0.0, 1.0]), 1.0).log_prob(tensor([1.0, 2.0, 3.0])), "not broadcastable"),
        (ValueError, lambda: d.Categorical(), "Either `probs` or `logits`"),
        (ValueError, lambda: d.MultivariateNormal(pellucid.zeros(2)), "Exactly one of covariance_matrix"),
        (ValueError, lambda: d.LKJCholesky(1), "greater than or equal to 2"),
        (NotImplementedError, lambda: d.kl_divergence(d.Normal(0.0, 1.0), d.Binomial(2, 0.5)), "Normal and q type Bin"),
    ]:  # fmt: skip
        with pytest.raises(kind, match=words):
            refused()
