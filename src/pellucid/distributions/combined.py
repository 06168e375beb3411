"""Distributions made of others."""

from typing import Any, ClassVar

import pellucid as torch
from pellucid.distributions import constraints
from pellucid.distributions.distribution import Distribution
from pellucid.distributions.transforms import ComposeTransform, Transform
from pellucid.distributions.utils import sum_rightmost

__all__ = ["Independent", "MixtureSameFamily", "TransformedDistribution"]


class Independent(Distribution):
    """The last dimensions of the batch are counted as one event.

    >>> from pellucid.distributions import Normal
    >>> Independent(Normal(torch.zeros(3), torch.ones(3)), 1).log_prob(torch.zeros(3))
    tensor(-2.7568)
    """

    arg_constraints: ClassVar[Any] = {}

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
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        return not self.reinterpreted_batch_ndims and bool(self.base_dist.has_enumerate_support)

    @constraints.dependent_property
    def support(self) -> Any:  # type: ignore[override]
        support = self.base_dist.support
        count = self.reinterpreted_batch_ndims
        return constraints.independent(support, count) if count else support

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
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Any:
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Any:
        if self.reinterpreted_batch_ndims:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made, shape = self._get_checked_instance(Independent, _instance), torch.Size(batch_shape)
        made.base_dist = self.base_dist.expand(shape + self._event_shape[: self.reinterpreted_batch_ndims])
        made.reinterpreted_batch_ndims = self.reinterpreted_batch_ndims
        Distribution.__init__(made, shape, self._event_shape, validate_args=False)
        made._validate_args = self._validate_args
        return made

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"


class TransformedDistribution(Distribution):
    """A distribution whose samples go through transforms.

    >>> from pellucid.distributions import Normal, ExpTransform
    >>> TransformedDistribution(Normal(0.0, 1.0), [ExpTransform()]).log_prob(torch.tensor(1.0))
    tensor(-0.9189)
    """

    arg_constraints: ClassVar[Any] = {}

    def __init__(self, base_distribution: Any, transforms: Any, validate_args: bool | None = None) -> None:
        self.transforms = [transforms] if isinstance(transforms, Transform) else transforms
        if not isinstance(self.transforms, list):
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        if not all(isinstance(transform, Transform) for transform in self.transforms):
            raise ValueError("transforms must be a Transform or a list of Transforms")
        whole = ComposeTransform(self.transforms)
        shape = self._take_base(base_distribution, whole)
        change = whole.codomain.event_dim - whole.domain.event_dim
        events = max(whole.codomain.event_dim, len(base_distribution.event_shape) + change)
        cut = len(shape) - events
        super().__init__(shape[:cut], shape[cut:], validate_args)

    def _take_base(self, base: Any, whole: Any) -> Any:
        """Keep the base distribution, as large as the transforms make it; returns the shape of a sample."""
        shape = base.batch_shape + base.event_shape
        if len(shape) < whole.domain.event_dim:
            raise ValueError(
                f"base_distribution needs to have shape with size at least {whole.domain.event_dim}, but got {shape}."
            )
        image = torch.Size(whole.forward_shape(shape))
        expanded = torch.Size(whole.inverse_shape(image))
        if expanded != shape:
            base = base.expand(expanded[: len(expanded) - len(base.event_shape)])
        extra = whole.domain.event_dim - len(base.event_shape)
        self.base_dist = Independent(base, extra) if extra > 0 else base
        return image

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return bool(self.base_dist.has_rsample)

    @constraints.dependent_property
    def support(self) -> Any:  # type: ignore[override]
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        extra = len(self._event_shape) - support.event_dim
        return constraints.independent(support, extra) if extra > 0 else support

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
        self._checked(value)
        events, total, y = len(self._event_shape), 0.0, value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            events += transform.domain.event_dim - transform.codomain.event_dim
            total = total - sum_rightmost(transform.log_abs_det_jacobian(x, y), events - transform.domain.event_dim)
            y = x
        return total + sum_rightmost(self.base_dist.log_prob(y), events - len(self.base_dist.event_shape))

    def _monotonize_cdf(self, value: Any) -> Any:
        """Probabilities counted from the other side where the transforms turn the order round."""
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        return value if isinstance(sign, int) and sign == 1 else sign * (value - 0.5) + 0.5

    def cdf(self, value: Any) -> Any:
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._monotonize_cdf(self.base_dist.cdf(value))

    def icdf(self, value: Any) -> Any:
        return self._through(self.base_dist.icdf(self._monotonize_cdf(value)))

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made, batch = self._get_checked_instance(type(self), _instance), torch.Size(batch_shape)
        shape = batch + self._event_shape
        for transform in reversed(self.transforms):
            shape = transform.inverse_shape(shape)
        made.base_dist = self.base_dist.expand(torch.Size(shape)[: len(shape) - len(self.base_dist.event_shape)])
        for name, value in self.__dict__.items():
            if isinstance(value, torch.Tensor):
                made.__dict__[name] = value.expand(batch + value.shape[len(self._batch_shape) :])
        made.transforms, made._validate_args = self.transforms, self._validate_args
        made._batch_shape, made._event_shape = batch, self._event_shape
        return made


class MixtureSameFamily(Distribution):
    """One of several distributions of a family, chosen at random.

    >>> import pellucid as torch
    >>> which = torch.distributions.Categorical(torch.tensor([0.3, 0.7]))
    >>> hills = torch.distributions.Normal(torch.tensor([-5.0, 5.0]), torch.tensor([1.0, 1.0]))
    >>> mixture = torch.distributions.MixtureSameFamily(which, hills)
    >>> mixture.mean  # 0.3 * -5 + 0.7 * 5
    tensor(2.)
    """

    arg_constraints: ClassVar[Any] = {}

    def __init__(
        self, mixture_distribution: Any, component_distribution: Any, validate_args: bool | None = None
    ) -> None:
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        self._check_parts(mixture_distribution, component_distribution)
        super().__init__(component_distribution.batch_shape[:-1], component_distribution.event_shape, validate_args)

    def _check_parts(self, mixture: Any, component: Any) -> None:
        from pellucid.distributions.categorical import Categorical

        if not isinstance(mixture, Categorical):
            raise ValueError(" The Mixture distribution needs to be an  instance of torch.distributions.Categorical")
        if not isinstance(component, Distribution):
            raise ValueError("The Component distribution needs to be an instance of torch.distributions.Distribution")
        batch = component.batch_shape[:-1]
        for one, two in zip(reversed(mixture.batch_shape), reversed(batch), strict=False):
            if one not in (1, two) and two != 1:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({mixture.batch_shape}) is not compatible with "
                    f"`component_distribution.batch_shape`({batch})"
                )
        count = component.batch_shape[-1]
        if mixture.logits.shape[-1] != count:
            raise ValueError(
                f"`mixture_distribution component` ({mixture.logits.shape[-1]}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({count})"
            )

    @property
    def mixture_distribution(self) -> Any:
        """Which component is taken."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Any:
        """The components."""
        return self._component_distribution

    @constraints.dependent_property
    def support(self) -> Any:  # type: ignore[override]
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    def _weights(self) -> Any:
        probs = self._mixture_distribution.probs
        return probs.reshape(probs.shape + (1,) * len(self._event_shape))

    @property
    def mean(self) -> Any:
        return (self._weights() * self._component_distribution.mean).sum(-1 - len(self._event_shape))

    @property
    def variance(self) -> Any:
        dim, weights, component = -1 - len(self._event_shape), self._weights(), self._component_distribution
        inside = (weights * component.variance).sum(dim)
        between = (weights * (component.mean - self.mean.unsqueeze(dim)).pow(2)).sum(dim)
        return inside + between

    def cdf(self, x: Any) -> Any:
        each = self._component_distribution.cdf(x.unsqueeze(-1 - len(self._event_shape)))
        return (each * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, x: Any) -> Any:
        self._checked(x)
        log_prob = self._component_distribution.log_prob(x.unsqueeze(-1 - len(self._event_shape)))
        return torch.logsumexp(log_prob + torch.log_softmax(self._mixture_distribution.logits, -1), -1)

    def sample(self, sample_shape: Any = ()) -> Any:
        with torch.no_grad():
            chosen = self._mixture_distribution.sample(sample_shape)
            drawn = self._component_distribution.sample(sample_shape)
            dim = len(tuple(sample_shape)) + len(self._batch_shape)
            index = chosen.reshape(chosen.shape + (1,) * (len(self._event_shape) + 1))
            index = index.expand((*drawn.shape[:dim], 1, *drawn.shape[dim + 1 :]))
            return torch.gather(drawn, dim, index).squeeze(dim)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made, shape = self._get_checked_instance(MixtureSameFamily, _instance), torch.Size(batch_shape)
        made._component_distribution = self._component_distribution.expand(
            shape + self._component_distribution.batch_shape[-1:]
        )
        made._mixture_distribution = self._mixture_distribution.expand(shape)
        made._batch_shape, made._event_shape, made._validate_args = shape, self._event_shape, self._validate_args
        return made

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self._mixture_distribution},\n  {self._component_distribution})"
