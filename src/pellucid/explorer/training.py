"""A training run as the page plays it: the loss of every step, parameters and gradients at some of them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pellucid.core.tensor import Tensor
from pellucid.diagnose.pulling import norm
from pellucid.errors import printable
from pellucid.explorer.summary import plain_number, summary
from pellucid.nn.modules.module import Module

__all__ = ["Training", "runs_as_json"]

FRAMES = 60  # pictures of the parameters that a run keeps; the loss and the norms are kept of every step
HEAT = 16


class Training:
    """Notes a training run: call `step(loss)` after every backward.

    >>> import pellucid as torch
    >>> w = torch.tensor(3.0, requires_grad=True)
    >>> training = Training({"w": w})
    >>> for _ in range(3):
    ...     loss = w * w
    ...     loss.backward()
    ...     training.step(loss)
    ...     w.data -= 0.25 * w.grad
    ...     w.grad = None
    >>> training.as_json()["loss"]
    [9, 2.25, 0.5625]
    >>> training.as_json()["updates"]  # how far each step moved w, as a share of w
    {'w': [0.5, 0.5]}
    """

    def __init__(self, parameters: "Mapping[str, Tensor] | Module", name: str = "") -> None:
        named = dict(parameters.named_parameters()) if isinstance(parameters, Module) else dict(parameters)
        if not named or not all(isinstance(tensor, Tensor) for tensor in named.values()):
            raise TypeError("Training takes a module, or a dictionary of the tensors to watch by name")
        named = {printable(each): tensor for each, tensor in named.items()}
        self.parameters, self.name = named, name
        self.losses: list[Any] = []
        self.sizes: dict[str, list[Any]] = {name: [] for name in named}
        self.slopes: dict[str, list[Any]] = {name: [] for name in named}
        self.updates: dict[str, list[Any]] = {name: [] for name in named}  # of all steps but the last
        self.frames: list[dict[str, Any]] = []
        self._every = 1
        self._before: dict[str, np.ndarray] = {}  # the parameters at the last step

    def step(self, loss: "Tensor | float", note: str = "") -> None:
        """Note one step: its loss, and parameters and gradients as they are now."""
        number = len(self.losses)
        self.losses.append(plain_number(f"{loss.array.item() if isinstance(loss, Tensor) else loss:.6g}"))
        for name, tensor in self.parameters.items():
            gradient = tensor._grad
            self.sizes[name].append(plain_number(_brief_text(norm(tensor.array))))
            self.slopes[name].append(0 if gradient is None else plain_number(_brief_text(norm(gradient.array))))
            self._note_update(name, np.array(tensor.array))
        if number % self._every == 0:
            self.frames.append({"step": number, "note": printable(note), "parameters": self._pictures()})
            if len(self.frames) > FRAMES:  # half as many from now on
                self._every *= 2
                self.frames = [frame for frame in self.frames if frame["step"] % self._every == 0]

    def _note_update(self, name: str, now: np.ndarray) -> None:
        """How far the step before has moved a parameter, as a share of its own size."""
        before = self._before.get(name)
        self._before[name] = now
        if before is not None and before.shape == now.shape:
            moved, size = norm(now - before), norm(before)
            share = moved / size if size else np.inf if moved else 0.0
            self.updates[name].append(plain_number(_brief_text(share)))

    def _pictures(self) -> dict[str, Any]:
        return {
            name: {"value": _picture(tensor), "grad": None if tensor._grad is None else _picture(tensor._grad)}
            for name, tensor in self.parameters.items()
        }

    def as_json(self) -> dict[str, Any]:
        """Plain values for the page."""
        return {
            "name": printable(self.name), "loss": self.losses, "norms": self.sizes, "gradients": self.slopes,
            "updates": self.updates, "frames": self.frames,
        }  # fmt: skip


def runs_as_json(runs: "Training | Sequence[Training] | None") -> dict[str, Any] | None:
    """The run that the page plays, with `other`, the one it is compared to, if there are two."""
    several = [runs] if isinstance(runs, Training) else list(runs or ())
    if len(several) > 2 or not all(isinstance(run, Training) for run in several):
        raise TypeError("explore takes one Training, or two to compare: training=[this, that]")
    told = [run.as_json() for run in several]
    return {**told[0], "other": told[1] if len(told) > 1 else None} if told else None


def _picture(tensor: Tensor) -> dict[str, Any]:
    """The summary of a tensor with as few digits as a picture needs."""
    told = summary(tensor.array, HEAT)
    told.pop("histogram", None)
    if "numbers" in told:
        told = {name: told[name] for name in ("shape", "numbers")}
        told["numbers"] = [n if isinstance(n, str) else plain_number(_brief_text(n)) for n in told["numbers"]]
    return told


def _brief_text(value: float) -> str:
    return f"{value:.4g}"
