"""Transforms, constraints, the registry and combined distributions: each line gives what PyTorch gives.

`d` is the module distributions, `c` its constraints, `U` its utils, `t` makes a tensor, `L` is the library.
"""

import numpy as np
import pytest

import pellucid

EXPRESSIONS = """
d.Independent(d.Normal(0.,1.),1)
d.MixtureSameFamily(d.Normal(0.,1.),d.Normal(0.,1.))
d.MixtureSameFamily(d.Categorical(t([.5,.5])),3)
d.MixtureSameFamily(d.Categorical(t([.5,.5])),d.Normal(t([0.,1.,2.]),1.))
d.MixtureSameFamily(d.Categorical(t([.5,.5])),d.Normal(t([0.,1.]),1.))
d.TransformedDistribution(d.Normal(0.,1.),3)
d.TransformedDistribution(d.Normal(0.,1.),[3])
d.TransformedDistribution(d.Normal(0.,1.),d.StickBreakingTransform())
d.Independent(d.Normal(t([0.,1.]),1.),1)
d.Independent(d.Normal(t([0.,1.]),1.),1).entropy()
d.Independent(d.Bernoulli(t([.1,.2])),1).enumerate_support()
d.Independent(d.Bernoulli(t([.1,.2])),0).enumerate_support()
d.Independent(d.Normal(t([0.,1.]),1.),1).support
d.Independent(d.Normal(t([[0.,1.]]),1.),1).expand((3,)).batch_shape
d.TransformedDistribution(d.Normal(0.,1.),[d.ExpTransform(),d.AffineTransform(1.,-2.)])
d.TransformedDistribution(d.Normal(0.,1.),[d.ExpTransform(),d.AffineTransform(1.,-2.)]).cdf(t(-1.))
d.TransformedDistribution(d.Normal(0.,1.),[d.ExpTransform(),d.AffineTransform(1.,-2.)]).icdf(t(.3))
d.TransformedDistribution(d.Normal(0.,1.),[d.ExpTransform(),d.AffineTransform(1.,-2.)]).support
d.TransformedDistribution(d.Normal(t([0.,1.]),1.),[d.StickBreakingTransform()]).event_shape
d.TransformedDistribution(d.Normal(t([0.,1.]),1.),[d.StickBreakingTransform()]).log_prob(t([.2,.3,.5]))
d.TransformedDistribution(d.Normal(t([0.,1.]),1.),[d.AffineTransform(t([[1.],[2.]]),2.)]).batch_shape
d.TransformedDistribution(d.Normal(t([0.,1.]),1.),[]).log_prob(t([.2,.3]))
d.MixtureSameFamily(d.Categorical(t([.5,.5])),d.Normal(t([0.,1.]),1.)).log_prob(t([.2,.3,.4]))
d.MixtureSameFamily(d.Categorical(t([.5,.5])),d.Normal(t([0.,1.]),1.)).cdf(t(.2))
d.MixtureSameFamily(d.Categorical(t([.5,.5])),d.Normal(t([0.,1.]),1.)).variance
d.MixtureSameFamily(d.Categorical(t([.5,.5])),d.Normal(t([0.,1.]),1.)).support
d.MixtureSameFamily(d.Categorical(t([.5,.5])),d.Independent(d.Normal(t([[0.,1.],[2.,3.]]),1.),1)).log_prob(t([.2,.3]))
d.MixtureSameFamily(d.Categorical(t([.5,.5])),d.Independent(d.Normal(t([[0.,1.],[2.,3.]]),1.),1)).mean
d.MixtureSameFamily(d.Categorical(t([.5,.5])),d.Exponential(t([1.,2.]))).log_prob(t(-1.))
d.MixtureSameFamily(d.Categorical(t([.5,.5])),d.Exponential(t([1.,2.]))).expand((3,)).mean
d.biject_to(c.simplex)(t([.1,.2]))
d.transform_to(c.simplex)(t([.1,.2]))
d.biject_to(c.positive)(t([.1,.2]))
d.biject_to(c.interval(1.,3.))(t([.1,.2]))
d.biject_to(c.less_than(3.))(t([.1,.2]))
d.biject_to(c.corr_cholesky)(t([.1,.2,.3]))
d.biject_to(c.corr_cholesky).inv(d.biject_to(c.corr_cholesky)(t([.1,.2,.3])))
d.CorrCholeskyTransform().log_abs_det_jacobian(t([.1,.2,.3]),d.CorrCholeskyTransform()(t([.1,.2,.3])))
d.CorrCholeskyTransform().forward_shape((2,3))
d.CorrCholeskyTransform().forward_shape((2,4))
d.CorrCholeskyTransform().inverse_shape((2,3,3))
d.CorrCholeskyTransform()(t([.1,.2,.3,.4]))
d.transform_to(c.positive_definite)(t([[.1,.2],[.3,.4]]))
d.transform_to(c.positive_definite).inv(t([[2.,.2],[.2,1.]]))
d.transform_to(c.lower_cholesky)(t([[.1,.2],[.3,.4]]))
d.transform_to(c.stack([c.real,c.positive],dim=-1))(t([[.1,.2],[.3,.4]]))
d.transform_to(c.cat([c.real,c.positive],dim=-1,lengths=[1,2]))(t([[.1,.2,.5],[.3,.4,.6]]))
d.CatTransform([d.ExpTransform(),d.AffineTransform(0.,2.)],dim=-1).log_abs_det_jacobian(t([[.1,.2]]),t([[.1,.2]]))
d.CatTransform([d.ExpTransform(),d.AffineTransform(0.,2.)],dim=0).log_abs_det_jacobian(t([.1,.2]),t([.1,.2]))
d.CatTransform([d.ExpTransform(),d.StickBreakingTransform()],dim=0,lengths=[1,1]).event_dim
d.CatTransform([d.ExpTransform(),d.AffineTransform(0.,2.)]).domain
d.CatTransform([d.ExpTransform(),d.AffineTransform(0.,2.)]).bijective
d.CatTransform([d.ExpTransform(),3])
d.StackTransform([d.ExpTransform(),d.AffineTransform(0.,2.)],dim=1)(t([[.1,.2],[.3,.4]]))
d.StackTransform([d.ExpTransform(),d.AffineTransform(0.,2.)],dim=1).inv(t([[.1,.2],[.3,.4]]))
d.StackTransform([d.ExpTransform(),d.AffineTransform(0.,2.)],dim=1).log_abs_det_jacobian(t([[.1,.2],[.3,.4]]),t([[.1,.2],[.3,.4]]))
d.ReshapeTransform((2,3),(6,))(L.arange(12.).reshape(2,2,3))
d.ReshapeTransform((2,3),(6,)).inv(L.arange(12.).reshape(2,6)).shape
d.ReshapeTransform((2,3),(5,))
d.ReshapeTransform((2,3),(6,)).log_abs_det_jacobian(L.zeros(4,2,3),L.zeros(4,6))
d.ReshapeTransform((2,3),(6,)).forward_shape((4,2,3))
d.ReshapeTransform((2,3),(6,)).forward_shape((4,3,2))
d.ReshapeTransform((2,3),(6,)).forward_shape((3,))
d.ReshapeTransform((2,3),(6,)).domain
d.ReshapeTransform((2,3),(6,)).event_dim
d.IndependentTransform(d.ExpTransform(),1).log_abs_det_jacobian(t([.1,.2]),t([.1,.2]))
d.IndependentTransform(d.ExpTransform(),1)(t(.1))
d.IndependentTransform(d.ExpTransform(),1)
d.IndependentTransform(d.ExpTransform(),1).domain
d.ComposeTransform([d.ExpTransform(),d.AffineTransform(0.,2.)])
d.ComposeTransform([d.ExpTransform(),d.AffineTransform(0.,2.)]).inv
d.ComposeTransform([d.ExpTransform(),d.AffineTransform(0.,2.)]).log_abs_det_jacobian(t([.1,.2]),t([.1,.2]))
d.ComposeTransform([d.ExpTransform(),d.AffineTransform(0.,-2.)]).sign
d.ComposeTransform([]).log_abs_det_jacobian(t([.1,.2]),t([.1,.2]))
d.ComposeTransform([d.ExpTransform(),d.StickBreakingTransform()]).domain
d.ComposeTransform([d.ExpTransform(),d.StickBreakingTransform()]).codomain
d.ComposeTransform([d.ExpTransform(),d.StickBreakingTransform()]).forward_shape((2,3))
d.ExpTransform().inv
d.ExpTransform().inv.inv == d.ExpTransform()
d.ExpTransform() == d.ExpTransform()
d.ExpTransform() != d.SigmoidTransform()
d.AffineTransform(0.,1.) == d.AffineTransform(0.,1.)
d.AffineTransform(t([0.]),1.) == d.AffineTransform(0.,2.)
d.AffineTransform(0.,t([1.,-2.])).sign
d.AffineTransform(0.,2.,event_dim=1).log_abs_det_jacobian(t([.1,.2]),t([.1,.2]))
d.AffineTransform(0.,t([2.,3.]),event_dim=1).log_abs_det_jacobian(t([.1,.2]),t([.1,.2]))
d.AffineTransform(0.,2.,event_dim=1).domain
d.AffineTransform(0.,2.,event_dim=1).codomain
d.PowerTransform(2.).log_abs_det_jacobian(t([.1,.2]),t([.01,.04]))
d.PowerTransform(2.).sign
d.TanhTransform().log_abs_det_jacobian(t([.1,20.]),t([.01,.04]))
d.TanhTransform().inv(t([.1,.5]))
d.SoftplusTransform().inv(t([.1,.5]))
d.SoftplusTransform().log_abs_det_jacobian(t([.1,20.]),t([.01,.04]))
d.SigmoidTransform()(t([100.,-200.]))
d.SoftmaxTransform().log_abs_det_jacobian(t([.1,20.]),t([.01,.04]))
d.AbsTransform().sign
d.AbsTransform().inv(t([1.]))
d.StickBreakingTransform().forward_shape(())
d.StickBreakingTransform().inv(t([.2,.3,.5]))
d.StickBreakingTransform().log_abs_det_jacobian(t([.1,.2]),d.StickBreakingTransform()(t([.1,.2])))
d.CumulativeDistributionTransform(d.Normal(0.,1.))(t([.1,.2]))
d.CumulativeDistributionTransform(d.Normal(0.,1.)).inv(t([.1,.2]))
d.CumulativeDistributionTransform(d.Normal(0.,1.)).log_abs_det_jacobian(t([.1,.2]),t([.1,.2]))
d.identity_transform(t([1.]))
c.positive.check(t([1.,-1.]))
c.simplex.check(t([[.5,.5],[.5,.6]]))
c.positive_definite.check(t([[[1.,0.],[0.,1.]],[[1.,2.],[2.,1.]]]))
c.positive_semidefinite.check(t([[[1.,0.],[0.,1.]],[[1.,2.],[2.,1.]]]))
c.corr_cholesky.check(t([[1.,0.],[.6,.8]]))
c.lower_triangular.check(t([[1.,1.],[.6,.8]]))
c.square.check(L.zeros(2,3,3))
c.symmetric.check(t([[1.,1.],[.6,.8]]))
c.one_hot.check(t([[1.,0.],[1.,1.]]))
c.boolean.check(t([0.,1.,.5]))
c.multinomial(3).check(t([1.,3.]))
c.independent(c.positive,1).check(t([[1.,1.],[1.,-1.]]))
c.independent(c.positive,1).check(t(1.))
c.real.check(t([1.,float('nan')]))
c.nonnegative_integer.check(t([1.,-1.,.5]))
c.integer_interval(0,2).check(t([1.,-1.,.5,3.]))
c.half_open_interval(0.,1.).check(t([0.,1.]))
c.stack([c.real,c.positive],dim=-1).check(t([[-1.,-1.],[1.,1.]]))
c.cat([c.real,c.positive],dim=-1,lengths=[1,2]).check(t([[-1.,-1.,1.],[1.,1.,1.]]))
c.is_dependent(c.dependent)
c.is_dependent(d.Uniform.support)
d.Uniform.support
d.Uniform.support.event_dim
U.tril_matrix_to_vec(t([[1.,0.],[2.,3.]]))
U.tril_matrix_to_vec(t([[1.,0.],[2.,3.]]),-1)
U.tril_matrix_to_vec(t([[1.,0.],[2.,3.]]),5)
U.vec_to_tril_matrix(t([1.,2.,3.]))
U.vec_to_tril_matrix(t([1.,2.,3.]),-1)
U.vec_to_tril_matrix(t([1.,2.]))
U.probs_to_logits(t([0.,.5,1.]),is_binary=True)
U.logits_to_probs(t([0.,.5,1.]))
U.clamp_probs(t([0.,.5,1.]))
U.broadcast_all(1,2)
U.broadcast_all(t([1,2]),.5)
U.broadcast_all(None)
d.ExponentialFamily.entropy(d.Normal(t([0.,1.]),t([1.,2.])))
d.ExponentialFamily.entropy(d.Beta(t([2.,1.]),t([1.,2.])))
d.ExponentialFamily.entropy(d.Gamma(t([2.,1.]),t([1.,2.])))
d.ExponentialFamily.entropy(d.Exponential(t([2.,1.])))
d.ExponentialFamily.entropy(d.Dirichlet(t([2.,1.])))
d.ExponentialFamily.entropy(d.Bernoulli(t([.2,.1])))
d.ExponentialFamily.entropy(d.Wishart(t(3.),L.eye(2)))
d.ExponentialFamily.entropy(d.ContinuousBernoulli(t([.2,.1])))
""".strip().splitlines()


def plain(value, library):
    """A value without its library: arrays, tuples and text."""
    if isinstance(value, library.Tensor):
        return value.detach().numpy()
    if isinstance(value, tuple):
        return tuple(plain(each, library) for each in value)
    return value if isinstance(value, (bool, int, float, str)) else repr(value)


def evaluated(library, expression):
    d = library.distributions
    names = {"d": d, "c": d.constraints, "U": d.utils, "t": library.tensor, "L": library}
    try:
        return plain(eval(expression, names), library)
    except Exception as problem:
        return type(problem).__name__, str(problem).partition("\n")[0][:35]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_equals_pytorch(expression, torch):
    mine, theirs = evaluated(pellucid, expression), evaluated(torch, expression)
    assert type(mine) is type(theirs)
    if isinstance(theirs, np.ndarray):
        assert mine.dtype == theirs.dtype and mine.shape == theirs.shape
        np.testing.assert_allclose(mine, theirs, 2e-6, 2e-6)
    elif isinstance(theirs, tuple) and any(isinstance(each, np.ndarray) for each in theirs):
        for one, two in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(one, two, 2e-6, 2e-6)
    else:
        assert mine == theirs


def test_golden():
    d = pellucid.distributions
    shares = d.biject_to(d.constraints.simplex)(pellucid.zeros(2))
    np.testing.assert_allclose(shares.numpy(), [1 / 3] * 3, 1e-6)
    factor = d.biject_to(d.constraints.corr_cholesky)(pellucid.tensor([0.3, -0.2, 0.9]))
    assert bool(d.constraints.corr_cholesky.check(factor))


def test_a_cache_keeps_the_very_value():
    transform = pellucid.distributions.ExpTransform(cache_size=1)
    x = pellucid.tensor([0.1, 30.0])
    assert transform.inv(transform(x)) is x
    assert transform.with_cache(0)._cache_size == 0 and transform.inv.inv is transform
