"""Distributions of matrices: covariances and correlations."""

import math
import warnings
from typing import Any, ClassVar

import pellucid as torch
from pellucid.distributions import constraints
from pellucid.distributions.distribution import Distribution
from pellucid.distributions.exp_family import ExponentialFamily
from pellucid.distributions.gamma import Chi2
from pellucid.distributions.interval import Beta
from pellucid.distributions.multivariate_normal import ByCovariance, factor_of, half_log_determinant, only_one

__all__ = ["LKJCholesky", "Wishart"]


def _mvdigamma(x: Any, p: int) -> Any:
    """The derivative of `mvlgamma`."""
    steps: Any = torch.arange(0, p / 2, 0.5, dtype=x.dtype)
    return torch.digamma(x.unsqueeze(-1) - steps.expand((*x.shape, p))).sum(-1)


class Wishart(ByCovariance, ExponentialFamily):
    """The sum of `df` outer products of normal vectors: what an estimated covariance looks like.

    >>> import pellucid as torch
    >>> wishart = torch.distributions.Wishart(torch.tensor(3.0), torch.eye(2))
    >>> wishart.mean  # df times the covariance
    tensor([[3., 0.],
            [0., 3.]])
    """

    has_rsample = True
    support = constraints.positive_definite
    _mean_carrier_measure = 0

    def __init__(
        self, df: Any, covariance_matrix: Any = None, precision_matrix: Any = None, scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        name, matrix = only_one(
            AssertionError,
            covariance_matrix=covariance_matrix, precision_matrix=precision_matrix, scale_tril=scale_tril,
        )  # fmt: skip
        if matrix.dim() < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        df = df if isinstance(df, torch.Tensor) else torch.tensor(df, dtype=matrix.dtype)
        batch = torch.broadcast_shapes(matrix.shape[:-2], df.shape)
        self.df, size = df.expand(batch), matrix.shape[-1]
        if bool((self.df <= size - 1).any()):
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {size - 1}.")
        self.__dict__[name] = matrix.expand((*batch, -1, -1))
        super().__init__(batch, matrix.shape[-2:], validate_args)
        if bool((self.df < size).any()):
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.",
                stacklevel=2,
            )
        self._unbroadcasted_scale_tril = factor_of(name, matrix)
        self._dist_chi2 = Chi2(self.df.unsqueeze(-1) - torch.arange(size, dtype=matrix.dtype).expand((*batch, size)))

    @property
    def arg_constraints(self) -> Any:  # type: ignore[override]
        """The matrices are positive definite, and there are more degrees of freedom than dimensions but one."""
        return {
            "covariance_matrix": constraints.positive_definite, "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self._event_shape[-1] - 1),
        }  # fmt: skip

    @property
    def mean(self) -> Any:
        return self.df.view((*self._batch_shape, 1, 1)) * self.covariance_matrix

    @property
    def mode(self) -> Any:
        factor = self.df - self.covariance_matrix.shape[-1] - 1
        factor = torch.where(factor > 0, factor, torch.nan)
        return factor.view((*self._batch_shape, 1, 1)) * self.covariance_matrix

    @property
    def variance(self) -> Any:
        matrix = self.covariance_matrix
        diagonal = matrix.diagonal(dim1=-2, dim2=-1)
        spread = matrix.pow(2) + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self.df.view((*self._batch_shape, 1, 1)) * spread

    def _bartlett_sampling(self, sample_shape: Any) -> Any:
        """Bartlett's decomposition: the Cholesky factor of a sample has chi and normal numbers."""
        size = self._event_shape[-1]
        noise = self._dist_chi2.rsample(sample_shape).sqrt().diag_embed(dim1=-2, dim2=-1)
        rows, columns = torch.tril_indices(size, size, offset=-1)
        below = torch.randn((*sample_shape, *self._batch_shape, size * (size - 1) // 2), dtype=noise.dtype)
        noise = _with_below(noise, rows, columns, below)
        factor = self._unbroadcasted_scale_tril @ noise
        return factor @ factor.mT

    def rsample(self, sample_shape: Any = (), max_try_correction: int | None = None) -> Any:
        """Values drawn at random; singular ones are drawn again, some times."""
        tries = max_try_correction
        if tries is None:
            tries = 3 if bool((self._event_shape[0] > self.df).any()) else 10
        sample = self._bartlett_sampling(torch.Size(sample_shape))
        batch = tuple(range(-len(self._batch_shape), 0))
        again: Any = torch.ones(sample.shape[: len(sample.shape) - 2 - len(batch)], dtype=torch.bool)
        # PyTorch's first test asks the wrong way round and draws good samples again: equal seeds are to give equal
        # numbers, so the first draw is thrown away here too.
        for _ in range(tries):
            drawn = self._bartlett_sampling(again[again].shape)
            sample[again] = drawn
            singular = ~self.support.check(drawn)
            again[again.clone()] = singular.amax(batch) if batch else singular
            if not bool(again.any()):
                break
        else:
            warnings.warn("Singular sample detected.", stacklevel=2)
        return sample

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        nu, p, factor = self.df, self._event_shape[-1], self._unbroadcasted_scale_tril
        size = -nu * (p * math.log(2) / 2 + half_log_determinant(factor)) - torch.mvlgamma(nu / 2, p=p)
        trace = torch.cholesky_solve(value, factor).diagonal(dim1=-2, dim2=-1).sum(-1)
        return size + (nu - p - 1) / 2 * torch.linalg.slogdet(value).logabsdet - trace / 2

    def entropy(self) -> Any:
        nu, p = self.df, self._event_shape[-1]
        volume = p * math.log(2) / 2 + half_log_determinant(self._unbroadcasted_scale_tril)
        change = (nu - p - 1) / 2 * _mvdigamma(nu / 2, p)
        return (p + 1) * volume + torch.mvlgamma(nu / 2, p=p) - change + nu * p / 2

    @property
    def _natural_params(self) -> Any:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        p = self._event_shape[-1]
        half = y + (p + 1) / 2
        return half * (-torch.linalg.slogdet(-2 * x).logabsdet + math.log(2) * p) + torch.mvlgamma(half, p=p)


def _with_below(noise: Any, rows: Any, columns: Any, below: Any) -> Any:
    matrix = torch.zeros_like(noise)
    matrix[..., rows, columns] = below
    return noise + matrix


class LKJCholesky(Distribution):
    """Cholesky factors of matrices of correlations: for concentration 1 all correlations are equally likely.

    >>> LKJCholesky(3).sample().shape
    torch.Size([3, 3])
    """

    support = constraints.corr_cholesky
    arg_constraints: ClassVar[Any] = {"concentration": constraints.positive}

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        given: Any = concentration if isinstance(concentration, torch.Tensor) else torch.tensor(float(concentration))
        self.concentration: Any = given
        offset = torch.nn.functional.pad(torch.arange(dim - 1, dtype=given.dtype), (1, 0))
        marginal = (given + 0.5 * (dim - 2)).unsqueeze(-1) - 0.5 * offset
        self._beta = Beta(offset + 0.5, marginal)
        super().__init__(given.size(), torch.Size((dim, dim)), validate_args)

    def sample(self, sample_shape: Any = ()) -> Any:
        """The onion method: row by row, a point on a sphere and a length."""
        with torch.no_grad():
            length = self._beta.sample(sample_shape).unsqueeze(-1)
            noise = torch.randn(self._extended_shape(sample_shape), dtype=length.dtype).tril(-1)
            point = noise / noise.norm(dim=-1, keepdim=True)
            point[..., 0, :].fill_(0.0)
            rows = torch.sqrt(length) * point
            tiny = torch.finfo(rows.dtype).tiny
            diagonal = torch.clamp(1 - torch.sum(rows**2, dim=-1), min=tiny).sqrt()
            return rows + torch.diag_embed(diagonal)

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order: Any = torch.arange(2, self.dim + 1, dtype=self.concentration.dtype)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        rows = self.dim - 1
        alpha = self.concentration + 0.5 * rows
        size = 0.5 * rows * math.log(math.pi) + torch.mvlgamma(alpha - 0.5, rows) - torch.lgamma(alpha) * rows
        return torch.sum(order * diagonal.log(), dim=-1) - size
