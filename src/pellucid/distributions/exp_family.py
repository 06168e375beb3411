"""ExponentialFamily: densities `exp(t(x) . natural - A(natural) + k(x))`; the derivatives of A give the moments."""

from typing import Any

import pellucid as torch
from pellucid.distributions.distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """A distribution given by its natural parameters and the normaliser A.

    Write `_natural_params`, `_log_normalizer` and `_mean_carrier_measure`: entropy and divergence follow.

    >>> import pellucid as torch
    >>> coin = torch.distributions.Bernoulli(0.5)
    >>> isinstance(coin, torch.distributions.ExponentialFamily), coin.entropy()
    (True, tensor(0.6931))
    """

    @property
    def _natural_params(self) -> Any:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Any) -> Any:
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> Any:
        raise NotImplementedError

    def _mean_statistics(self) -> tuple[list[Any], Any, tuple[Any, ...]]:
        """The natural parameters, the normaliser, and its derivatives: the means of the sufficient statistics."""
        with torch.enable_grad():
            natural = [parameter.detach().requires_grad_() for parameter in self._natural_params]
            normaliser = self._log_normalizer(*natural)
            return natural, normaliser, torch.autograd.grad(normaliser.sum(), natural, create_graph=True)

    def entropy(self) -> Any:
        natural, result, means = self._mean_statistics()
        result = result - self._mean_carrier_measure
        for parameter, mean in zip(natural, means, strict=True):
            result = result - (parameter * mean).reshape((*self._batch_shape, -1)).sum(-1)
        return result
