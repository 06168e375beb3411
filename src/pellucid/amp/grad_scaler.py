"""GradScaler: a loss is scaled up so that small gradients survive in short floats, and gradients down again."""

from operator import setitem
from typing import Any

import numpy as np

from pellucid.core.commit import Call, together
from pellucid.core.inplace import scaling, write_all
from pellucid.core.primitive import BOUND
from pellucid.core.provenance import warn
from pellucid.core.tensor import Tensor

READY, UNSCALED, STEPPED = "ready", "unscaled", "stepped"


class GradScaler:
    """Scale the loss, unscale the gradients, and leave a step out when one of them is not finite.

    Without a device it is meant for CUDA, as in PyTorch, and does nothing here.

    >>> import pellucid as torch
    >>> scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    >>> scaler.scale(torch.tensor(2.0))
    tensor(16.)
    """

    def __init__(
        self, device: str = "cuda", init_scale: float = 65536.0, growth_factor: float = 2.0,
        backoff_factor: float = 0.5, growth_interval: int = 2000, enabled: bool = True,
    ) -> None:  # fmt: skip
        if growth_factor <= 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if backoff_factor >= 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        if device == "cuda" and enabled:
            warn("torch.amp.GradScaler is enabled, but CUDA is not available.  Disabling.")
            enabled = False
        self._device, self._enabled = device, enabled
        self._scale, self._growth_tracker = float(init_scale), 0
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval = growth_interval
        self._stages: dict[int, str] = {}
        self._found: dict[int, bool] = {}  # per optimizer: was a gradient not finite

    def scale(self, outputs: Any) -> Any:
        """A tensor, or all tensors of a list or tuple, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return BOUND["mul"](outputs, self._scale)
        if isinstance(outputs, (list, tuple)):
            return type(outputs)(self.scale(each) for each in outputs)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def unscale_(self, optimizer: Any) -> None:
        """Divide an optimizer's gradients by the scale, once per step."""
        if not self._enabled:
            return
        stage = self._stages.get(id(optimizer), READY)
        if stage == UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if stage == STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        key, factor = id(optimizer), 1.0 / self._scale
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        grads = [parameter.grad for parameter in parameters if parameter.grad is not None]

        def noted(fine: bool) -> list[Call]:
            return [(setitem, self._stages, key, UNSCALED), (setitem, self._found, key, not fine)]

        def prepare() -> list[Call]:
            fine = all(_stays_finite(grad.array, factor) for grad in grads)
            return [*scaling(grads, factor, "mul_"), *noted(fine)]

        def one_by_one() -> None:
            for grad in grads:
                grad.mul_(factor)
            together(noted(all(bool(np.isfinite(grad.array).all()) for grad in grads)))

        back = [(self._stages.pop, key, None), (self._found.pop, key, None)]
        write_all(grads, prepare, one_by_one, back=back)

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Let the optimizer step if all its gradients are finite."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        stage = self._stages.get(id(optimizer), READY)
        if stage == STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if stage == READY:
            self.unscale_(optimizer)
        self._stages[id(optimizer)] = STEPPED
        return None if self._found[id(optimizer)] else optimizer.step(*args, **kwargs)

    def update(self, new_scale: Any = None) -> None:
        """Make the scale smaller after a step that was left out, larger after many that were not."""
        if not self._enabled:
            return
        scale, tracker = self._scale, self._growth_tracker
        if new_scale is not None:
            scale = float(new_scale)
        elif not self._found:
            raise AssertionError("No inf checks were recorded prior to update.")
        elif any(self._found.values()):
            scale, tracker = scale * self._backoff_factor, 0
        else:
            tracker += 1
            if tracker == self._growth_interval:
                scale, tracker = scale * self._growth_factor, 0
        self._become(_scale=scale, _growth_tracker=tracker, _stages={}, _found={})

    def _become(self, **attributes: Any) -> None:
        """Take new attributes, all in one call: Ctrl-C comes before or after."""
        self.__dict__.update(attributes)

    def get_scale(self) -> float:
        """The scale, 1 when the scaler is disabled."""
        return self._scale if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        """By how much the scale grows."""
        return self._growth_factor

    def get_backoff_factor(self) -> float:
        """By how much the scale shrinks."""
        return self._backoff_factor

    def get_growth_interval(self) -> int:
        """After how many good steps the scale grows."""
        return self._growth_interval

    def set_growth_factor(self, new_factor: float) -> None:
        """Let the scale grow by another factor."""
        self._growth_factor = new_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Let the scale shrink by another factor."""
        self._backoff_factor = new_factor

    def set_growth_interval(self, new_interval: int) -> None:
        """Let the scale grow after another number of good steps."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Whether it does anything."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """What to save; nothing when it is disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale, "growth_factor": self._growth_factor, "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval, "_growth_tracker": self._growth_tracker,
        }  # fmt: skip

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take back what was saved."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError("The source state dict is empty: it was saved from a disabled instance of GradScaler.")
        self._become(
            _scale=float(state_dict["scale"]), _growth_tracker=int(state_dict["_growth_tracker"]),
            _growth_factor=state_dict["growth_factor"], _backoff_factor=state_dict["backoff_factor"],
            _growth_interval=state_dict["growth_interval"],
        )  # fmt: skip


def _stays_finite(array: np.ndarray, factor: float) -> bool:
    """Whether an array has finite numbers only, also when it is multiplied; by up to 1 that changes nothing."""
    return bool(np.isfinite(array if factor <= 1 else array * factor).all())
