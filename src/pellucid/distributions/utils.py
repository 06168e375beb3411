"""torch.distributions.utils: what distributions of one's own are written with."""

from collections.abc import Callable
from typing import Any

import pellucid as torch
from pellucid.distributions.discrete import logits_to_probs, probs_to_logits
from pellucid.distributions.distribution import broadcast_all
from pellucid.distributions.relaxed import inside as clamp_probs

__all__ = ["broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits"]


class lazy_property:
    """A property that is worked out once, with gradients, and then kept as an attribute."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with torch.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value
