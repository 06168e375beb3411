"""Which formula measures a pair of distributions."""

from collections.abc import Callable
from typing import Any

__all__ = ["kl_divergence", "register_kl"]

FORMULAS: dict[tuple[type, type], Callable[[Any, Any], Any]] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate the formula for a pair of kinds of distribution.

    >>> import pellucid as torch
    >>> class Coin(torch.distributions.Bernoulli):
    ...     pass
    >>> @torch.distributions.register_kl(Coin, Coin)
    ... def between_coins(p, q):
    ...     return (p.probs - q.probs).abs()
    >>> torch.distributions.kl_divergence(Coin(0.2), Coin(0.9))
    tensor(0.7000)
    """
    for name, kind in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(kind, type):
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {kind}")

    def enlist(function: Callable[..., Any]) -> Callable[..., Any]:
        FORMULAS[type_p, type_q] = function
        return function

    return enlist


def kl_divergence(p: Any, q: Any) -> Any:
    """The divergence of q from p: the formula of the nearest kinds that both are of.

    >>> import pellucid as torch
    >>> p = torch.distributions.Normal(0.0, 1.0)
    >>> torch.distributions.kl_divergence(p, torch.distributions.Normal(1.0, 1.0))
    tensor(0.5000)
    >>> torch.distributions.kl_divergence(p, p)
    tensor(0.)
    """
    fitting = [
        (type(p).__mro__.index(a) + type(q).__mro__.index(b), function)
        for (a, b), function in FORMULAS.items() if isinstance(p, a) and isinstance(q, b)
    ]  # fmt: skip
    if not fitting:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
        )
    return min(fitting, key=lambda pair: pair[0])[1](p, q)
