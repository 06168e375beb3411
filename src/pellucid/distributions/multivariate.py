"""Distributions made of others, and the normal distribution of vectors."""

import math
from typing import Any, ClassVar

import pellucid as torch
from pellucid.distributions import constraints
from pellucid.distributions.distribution import Distribution

__all__ = ["Independent", "MixtureSameFamily", "MultivariateNormal", "TransformedDistribution"]


class MultivariateNormal(Distribution):
    """The normal distribution of vectors, by its covariance, its precision or the Cholesky factor of the covariance.

    >>> MultivariateNormal(torch.zeros(2), torch.eye(2)).log_prob(torch.zeros(2))
    tensor(-1.8379)
    """

    has_rsample = True
    support = constraints.real_vector
    arg_constraints: ClassVar = {
        "loc": constraints.real_vector, "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite, "scale_tril": constraints.lower_cholesky,
    }  # fmt: skip

    def __init__(
        self, loc: Any, covariance_matrix: Any = None, precision_matrix: Any = None, scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        given = {"covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix, "scale_tril": scale_tril}
        (name, matrix), *more = [(key, value) for key, value in given.items() if value is not None] or [("", None)]
        if matrix is None or more:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        if loc.dim() < 1 or matrix.dim() < 2:
            raise ValueError("loc must be at least one-dimensional, and the matrix at least two-dimensional")
        batch = torch.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.loc = loc.expand((*batch, -1))
        self.__dict__[name] = matrix.expand((*batch, -1, -1))
        super().__init__(batch, self.loc.shape[-1:], validate_args)
        self._factor = _factor_of(name, self.__dict__[name])

    def __getattr__(self, name: str) -> Any:
        if "_factor" in self.__dict__:
            if name == "scale_tril":
                return self._factor
            if name == "covariance_matrix":
                return self._factor @ self._factor.mT
            if name == "precision_matrix":
                return torch.cholesky_inverse(self._factor)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        return self._factor.pow(2).sum(-1)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        noise = torch.normal(torch.zeros(shape, dtype=self.loc.dtype), torch.ones(shape, dtype=self.loc.dtype))
        return self.loc + (self._factor @ noise.unsqueeze(-1)).squeeze(-1)

    def _half_log_determinant(self) -> Any:
        return self._factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        away = (value - self.loc).unsqueeze(-1)
        shape = torch.broadcast_shapes(away.shape[:-2], self._factor.shape[:-2])
        n = self._event_shape[0]
        solved = torch.linalg.solve_triangular(
            self._factor.expand((*shape, n, n)), away.expand((*shape, n, 1)), upper=False
        )
        distance = solved.pow(2).sum(-1).sum(-1)
        return -0.5 * (n * math.log(2 * math.pi) + distance) - self._half_log_determinant()

    def entropy(self) -> Any:
        return 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._half_log_determinant()


def _factor_of(name: str, matrix: Any) -> Any:
    if name == "scale_tril":
        return matrix
    if name == "covariance_matrix":
        return torch.linalg.cholesky(matrix)
    flipped = torch.linalg.cholesky(torch.flip(matrix, (-2, -1)))
    upper = torch.flip(flipped, (-2, -1)).mT
    identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype).expand(matrix.shape)
    return torch.linalg.solve_triangular(upper, identity, upper=False)


class Independent(Distribution):
    """The last dimensions of the batch are counted as one event."""

    arg_constraints: ClassVar = {}

    def __init__(
        self, base_distribution: Any, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        batch = base_distribution.batch_shape
        if reinterpreted_batch_ndims > len(batch):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                f"{reinterpreted_batch_ndims} vs {len(batch)}"
            )
        cut = len(batch) - reinterpreted_batch_ndims
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        super().__init__(batch[:cut], batch[cut:] + base_distribution.event_shape, validate_args)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return bool(self.base_dist.has_rsample)

    @property
    def mean(self) -> Any:
        return self.base_dist.mean

    @property
    def mode(self) -> Any:
        return self.base_dist.mode

    @property
    def variance(self) -> Any:
        return self.base_dist.variance

    def sample(self, sample_shape: Any = ()) -> Any:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Any) -> Any:
        return _summed(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Any:
        return _summed(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def expand(self, batch_shape: Any, _instance: Any = None) -> "Independent":
        inner = self._event_shape[: self.reinterpreted_batch_ndims]
        return Independent(self.base_dist.expand(torch.Size(batch_shape) + inner), self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"


def _summed(value: Any, dimensions: int) -> Any:
    return value.sum(tuple(range(-dimensions, 0))) if dimensions else value


class MixtureSameFamily(Distribution):
    """One of several distributions of a family, chosen at random."""

    arg_constraints: ClassVar = {}

    def __init__(
        self, mixture_distribution: Any, component_distribution: Any, validate_args: bool | None = None
    ) -> None:
        self._mixture, self._component = mixture_distribution, component_distribution
        super().__init__(component_distribution.batch_shape[:-1], component_distribution.event_shape, validate_args)

    @property
    def mixture_distribution(self) -> Any:
        """Which component is taken."""
        return self._mixture

    @property
    def component_distribution(self) -> Any:
        """The components."""
        return self._component

    def _weights(self) -> Any:
        probs = self._mixture.probs
        return probs.reshape(probs.shape + (1,) * len(self._event_shape))

    @property
    def mean(self) -> Any:
        return (self._weights() * self._component.mean).sum(-1 - len(self._event_shape))

    @property
    def variance(self) -> Any:
        dim, weights = -1 - len(self._event_shape), self._weights()
        inside = (weights * self._component.variance).sum(dim)
        between = (weights * (self._component.mean - self.mean.unsqueeze(dim)).pow(2)).sum(dim)
        return inside + between

    def log_prob(self, value: Any) -> Any:
        log_prob = self._component.log_prob(value.unsqueeze(-1 - len(self._event_shape)))
        return torch.logsumexp(log_prob + torch.log_softmax(self._mixture.logits, -1), -1)

    def sample(self, sample_shape: Any = ()) -> Any:
        with torch.no_grad():
            chosen = self._mixture.sample(sample_shape)
            drawn = self._component.sample(sample_shape)
            events = len(self._event_shape)
            index = chosen.reshape(chosen.shape + (1,) * (events + 1))
            dim = len(tuple(sample_shape)) + len(self._batch_shape)
            index = index.expand((*drawn.shape[:dim], 1, *drawn.shape[dim + 1 :]))
            return torch.gather(drawn, dim, index).squeeze(dim)


class TransformedDistribution(Distribution):
    """A distribution whose samples go through transforms."""

    arg_constraints: ClassVar = {}

    def __init__(self, base_distribution: Any, transforms: Any, validate_args: bool | None = None) -> None:
        self.transforms = list(transforms) if isinstance(transforms, (list, tuple)) else [transforms]
        self.base_dist = base_distribution
        events = max([len(base_distribution.event_shape), *(t.event_dim for t in self.transforms)])
        shape = base_distribution.batch_shape + base_distribution.event_shape
        cut = len(shape) - events
        self._extra = events - len(base_distribution.event_shape)
        super().__init__(shape[:cut], shape[cut:], validate_args)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return bool(self.base_dist.has_rsample)

    def _through(self, value: Any) -> Any:
        for transform in self.transforms:
            value = transform(value)
        return value

    def sample(self, sample_shape: Any = ()) -> Any:
        with torch.no_grad():
            return self._through(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self._through(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Any) -> Any:
        events, total, y = len(self._event_shape), 0.0, value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            total = total - _summed(transform.log_abs_det_jacobian(x, y), events - transform.event_dim)
            y = x
        return total + _summed(self.base_dist.log_prob(y), events - len(self.base_dist.event_shape))

    def cdf(self, value: Any) -> Any:
        sign: Any = 1
        for transform in reversed(self.transforms):
            value = transform.inv(value)
            sign = sign * transform.sign
        value = self.base_dist.cdf(value)
        return value if isinstance(sign, int) and sign == 1 else sign * (value - 0.5) + 0.5

    def __repr__(self) -> str:
        return "TransformedDistribution()"
