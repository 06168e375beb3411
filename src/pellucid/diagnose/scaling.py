"""Listening to a GradScaler: it scales the loss up, and leaves out a step whose gradients that made infinite.

Such an overflow is no fault: the scaler is made to find the largest scale by it. Whoever watches a run is told of both
calls, so as to wait for the scaler's decision and to read losses as they were before they were scaled.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any

from pellucid.amp import GradScaler
from pellucid.diagnose.events import is_finite
from pellucid.diagnose.tapping import Wrapper, tensors_in

__all__ = ["scaler_instruments"]


def scaler_instruments(
    scaled: Callable[[float], None], left_out: Callable[[Any], None]
) -> Iterator[tuple[Any, str, Wrapper]]:
    """What to wrap, where, and in what.

    `scaled` is told by how much a loss was multiplied (1 where it was not finite before that: no other scale would
    help), `left_out` whose step was left out.
    """
    yield GradScaler, "scale", functools.partial(_scaling, scaled)
    yield GradScaler, "step", functools.partial(_stepping, left_out)


def _scaling(scaled: Callable[[float], None], original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def scale(self: GradScaler, outputs: Any) -> Any:
        was_finite = all(is_finite(tensor.array) for tensor in tensors_in(outputs))
        scaled(self.get_scale() if was_finite else 1.0)
        return original(self, outputs)

    return scale


def _stepping(left_out: Callable[[Any], None], original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def step(self: GradScaler, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, optimizer, *args, **kwargs)
        if self._found.get(id(optimizer)):
            left_out(optimizer)
        return result

    return step
