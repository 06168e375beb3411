"""The normal distribution of vectors."""

import math
from typing import Any, ClassVar

import pellucid as torch
from pellucid.distributions import constraints
from pellucid.distributions.distribution import Distribution
from pellucid.distributions.located import Located
from pellucid.distributions.utils import lazy_property, standard_normal

__all__ = ["LowRankMultivariateNormal", "MultivariateNormal"]


def mahalanobis(factor: Any, away: Any) -> Any:
    """The squared distance `away^T (factor factor^T)^-1 away` of vectors."""
    shape, n = torch.broadcast_shapes(away.shape[:-1], factor.shape[:-2]), away.shape[-1]
    solved = torch.linalg.solve_triangular(
        factor.expand((*shape, n, n)), away.expand((*shape, n)).unsqueeze(-1), upper=False
    )
    return solved.pow(2).sum((-2, -1))


def half_log_determinant(factor: Any) -> Any:
    """The sum of the logarithms of a factor's diagonal."""
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def factor_of_precision(precision: Any) -> Any:
    """The Cholesky factor of the inverse: flipped, the factor of the precision is the inverse of an upper one."""
    flipped = torch.linalg.cholesky(torch.flip(precision, (-2, -1)))
    upper = torch.flip(flipped, (-2, -1)).mT
    identity = torch.eye(precision.shape[-1], dtype=precision.dtype).expand(precision.shape)
    return torch.linalg.solve_triangular(upper, identity, upper=False)


def factor_of(name: str, matrix: Any) -> Any:
    """The Cholesky factor of the covariance, by whichever matrix was given."""
    if name == "scale_tril":
        return matrix
    return torch.linalg.cholesky(matrix) if name == "covariance_matrix" else factor_of_precision(matrix)


def only_one(refusal: type[Exception] = ValueError, **given: Any) -> tuple[str, Any]:
    """The one matrix that was given, and its name."""
    named = [(name, value) for name, value in given.items() if value is not None]
    if len(named) != 1:
        raise refusal(f"Exactly one of {' or '.join(given)} may be specified.")
    return named[0]


class ByCovariance(Distribution):
    """A distribution with a matrix that was given as covariance, precision or Cholesky factor: the others follow."""

    _as_given: tuple[str, ...] = ("_unbroadcasted_scale_tril",)
    _unbroadcasted_scale_tril: Any

    def _whole(self, matrix: Any) -> Any:
        """A matrix for each distribution of the batch."""
        return matrix.expand(self._batch_shape + self._event_shape[-1:] + self._event_shape[-1:])

    @lazy_property
    def scale_tril(self) -> Any:
        """The Cholesky factor of the covariance."""
        return self._whole(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance."""
        return self._whole(self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT)

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance."""
        return self._whole(torch.cholesky_inverse(self._unbroadcasted_scale_tril))


class MultivariateNormal(Located, ByCovariance):
    """The normal distribution of vectors, by its covariance, its precision or the Cholesky factor of the covariance.

    >>> MultivariateNormal(torch.zeros(2), torch.eye(2)).log_prob(torch.zeros(2))
    tensor(-1.8379)
    """

    has_rsample = True
    support = constraints.real_vector
    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real_vector, "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite, "scale_tril": constraints.lower_cholesky,
    }  # fmt: skip

    def __init__(
        self, loc: Any, covariance_matrix: Any = None, precision_matrix: Any = None, scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        name, matrix = only_one(
            covariance_matrix=covariance_matrix, precision_matrix=precision_matrix, scale_tril=scale_tril,
        )  # fmt: skip
        if matrix.dim() < 2:
            raise ValueError(f"{name} must be at least two-dimensional, with optional leading batch dimensions")
        batch = torch.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.__dict__[name] = matrix.expand((*batch, -1, -1))
        self.loc = loc.expand((*batch, -1))
        super().__init__(batch, self.loc.shape[-1:], validate_args)
        self._unbroadcasted_scale_tril = factor_of(name, matrix)

    @property
    def variance(self) -> Any:
        return self._unbroadcasted_scale_tril.pow(2).sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        noise = standard_normal(self._extended_shape(sample_shape), self.loc.dtype)
        return self.loc + torch.matmul(self._unbroadcasted_scale_tril, noise.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        distance = mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        volume = half_log_determinant(self._unbroadcasted_scale_tril)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - volume

    def entropy(self) -> Any:
        entropy = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        entropy = entropy + half_log_determinant(self._unbroadcasted_scale_tril)
        return entropy.expand(self._batch_shape) if self._batch_shape else entropy


class LowRankMultivariateNormal(Located, ByCovariance):
    """Normal vectors with the covariance `cov_factor @ cov_factor.T + diag(cov_diag)`, without that large matrix.

    >>> LowRankMultivariateNormal(torch.zeros(2), torch.ones(2, 1), torch.ones(2)).covariance_matrix
    tensor([[2., 1.],
            [1., 2.]])
    """

    has_rsample = True
    support = constraints.real_vector
    _as_given = ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril")
    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real_vector, "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }  # fmt: skip

    def __init__(self, loc: Any, cov_factor: Any, cov_diag: Any, validate_args: bool | None = None) -> None:
        self._check_shapes(loc, cov_factor, cov_diag)
        wide, diagonal = loc.unsqueeze(-1), cov_diag.unsqueeze(-1)
        try:
            wide, self.cov_factor, diagonal = torch.broadcast_tensors(wide, cov_factor, diagonal)
        except RuntimeError as problem:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, cov_diag {cov_diag.shape}"
            ) from problem
        self.loc, self.cov_diag = wide[..., 0], diagonal[..., 0]
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        self._capacitance_tril = self._capacitance(cov_factor, cov_diag)
        super().__init__(self.loc.shape[:-1], loc.shape[-1:], validate_args)

    @staticmethod
    def _check_shapes(loc: Any, cov_factor: Any, cov_diag: Any) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        if cov_factor.dim() < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        for name, size in (("cov_factor", cov_factor.shape[-2]), ("cov_diag", cov_diag.shape[-1])):
            if size != loc.shape[-1]:
                last = "x m" if name == "cov_factor" else ""
                raise ValueError(f"{name} must be a batch of {'matrices' if last else 'vectors'} with shape "
                                 f"{loc.shape[-1]} {last}")  # fmt: skip

    @staticmethod
    def _capacitance(cov_factor: Any, cov_diag: Any) -> Any:
        """The Cholesky factor of `I + W^T D^-1 W`: what Woodbury's formula inverts instead of the covariance."""
        inner = torch.matmul(cov_factor.mT / cov_diag.unsqueeze(-2), cov_factor)
        return torch.linalg.cholesky(inner + torch.eye(cov_factor.size(-1), dtype=cov_factor.dtype))

    @lazy_property
    def variance(self) -> Any:  # type: ignore[override]
        """The variance of each element."""
        spread = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return spread.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Any:
        """The Cholesky factor of the covariance."""
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        inner = scaled @ scaled.mT + torch.eye(self._event_shape[0], dtype=self.loc.dtype)
        return self._whole(root * torch.linalg.cholesky(inner))

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance."""
        factor = self._unbroadcasted_cov_factor
        return self._whole(factor @ factor.mT + torch.diag_embed(self._unbroadcasted_cov_diag))

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance, by Woodbury's formula."""
        scaled = self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)
        solved = torch.linalg.solve_triangular(self._capacitance_tril, scaled, upper=False)
        return self._whole(torch.diag_embed(self._unbroadcasted_cov_diag.reciprocal()) - solved.mT @ solved)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        shared = standard_normal(shape[:-1] + self.cov_factor.shape[-1:], self.loc.dtype)
        own = standard_normal(shape, self.loc.dtype)
        moved = torch.matmul(self._unbroadcasted_cov_factor, shared.unsqueeze(-1)).squeeze(-1)
        return self.loc + moved + self._unbroadcasted_cov_diag.sqrt() * own

    def log_determinant(self) -> Any:
        """The logarithm of the covariance's determinant."""
        return 2 * half_log_determinant(self._capacitance_tril) + self._unbroadcasted_cov_diag.log().sum(-1)

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        away = value - self.loc
        scaled = away / self._unbroadcasted_cov_diag
        inner = torch.matmul(self._unbroadcasted_cov_factor.mT, scaled.unsqueeze(-1)).squeeze(-1)
        distance = (away * scaled).sum(-1) - mahalanobis(self._capacitance_tril, inner)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + self.log_determinant() + distance)

    def entropy(self) -> Any:
        entropy = 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self.log_determinant())
        return entropy.expand(self._batch_shape) if self._batch_shape else entropy
