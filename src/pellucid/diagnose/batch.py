"""inspect_batch: one batch through model and loss, looked at stage by stage before any step is taken."""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from pellucid.autograd import grad
from pellucid.core.modes import enable_grad, no_grad
from pellucid.core.tensor import Tensor
from pellucid.diagnose.modules import model_for
from pellucid.diagnose.naming import number
from pellucid.diagnose.pulling import norm
from pellucid.nn.modules.module import Module
from pellucid.random import get_rng_state, set_rng_state
from pellucid.transforms.tree import flatten

__all__ = ["BatchReport", "Measured", "inspect_batch"]


@dataclass(frozen=True, slots=True)
class Measured:
    """One tensor in numbers: of the values that are finite the norm and the range, of the others how many."""

    name: str
    shape: tuple[int, ...]
    norm: float
    smallest: float
    largest: float
    nan: int
    inf: int
    missing: bool = False  # a parameter that got no gradient

    @property
    def ok(self) -> bool:
        return not (self.nan or self.inf)

    def __str__(self) -> str:
        if self.missing:
            return f"{self.name}: no gradient"
        bad = [f"{count} {label}" for count, label in ((self.nan, "NaN"), (self.inf, "Inf")) if count]
        note = f"  ** {' and '.join(bad)} **" if bad else ""
        if self.nan + self.inf == prod(self.shape):  # of nothing there is no range
            return f"{self.name}: shape {self.shape}{note or ', no elements'}"
        between = f"{number(self.smallest)} to {number(self.largest)}"
        return f"{self.name}: shape {self.shape}, {between}, norm {number(self.norm)}{note}"


@dataclass(frozen=True, slots=True)
class BatchReport:
    """What `inspect_batch` saw at each stage: the batch, the model's output, the loss, the gradients."""

    inputs: list[Measured]
    outputs: list[Measured]
    loss: Measured
    gradients: list[Measured]

    @property
    def stages(self) -> list[tuple[str, list[Measured]]]:
        return [
            ("input", self.inputs), ("output", self.outputs), ("loss", [self.loss]), ("gradients", self.gradients),
        ]  # fmt: skip

    @property
    def first_bad(self) -> tuple[str, Measured] | None:
        """The first stage with NaN or Inf, and where: later ones only carry it on."""
        return next(((stage, each) for stage, found in self.stages for each in found if not each.ok), None)

    @property
    def ok(self) -> bool:
        """Whether everything is finite, and every parameter that wants a gradient has one."""
        return self.first_bad is None and not any(each.missing for each in self.gradients)

    def __str__(self) -> str:
        lines = [line for stage, found in self.stages for line in (stage, *(f"  {each}" for each in found))]
        return "\n".join([*lines, self._summary()])

    def _summary(self) -> str:
        if self.first_bad is not None:
            stage, bad = self.first_bad
            return f"first NaN or Inf: {stage} ({bad.name})"
        missing = [each.name for each in self.gradients if each.missing]
        return f"no gradient: {', '.join(missing)}" if missing else "all values are finite"


def inspect_batch(model: Module, batch: Any, loss_fn: Callable[..., Tensor]) -> BatchReport:
    """Run one batch through model, loss and backward, and report what each stage holds; call it before `step()`.

    A batch is `(inputs, target)` (all but the last element go to the model), a tensor, or a dictionary of the model's
    arguments; then the loss function gets the output alone. The model's gradients, buffers and the random state are
    left as they were.

    >>> import pellucid as torch
    >>> model = torch.nn.Linear(2, 1)
    >>> report = inspect_batch(model, (torch.ones(4, 2), torch.zeros(4, 1)), torch.nn.functional.mse_loss)
    >>> report.ok, [each.name for each in report.gradients], model.weight.grad
    (True, ['weight', 'bias'], None)
    """
    with untouched(model_for("inspect_batch", model)), enable_grad():
        output, loss = _forward(model, batch, loss_fn)
        parameters = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        gradients = _gradients(loss, [p for _, p in parameters])
    return BatchReport(
        _measured_all(batch, "batch"),
        _measured_all(output, "output"),
        _measured("loss", loss.array),
        [_measured_gradient(name, p, g) for (name, p), g in zip(parameters, gradients, strict=True)],
    )


def _forward(model: Module, batch: Any, loss_fn: Callable[..., Tensor]) -> tuple[Any, Tensor]:
    if isinstance(batch, dict):
        output = model(**batch)
        return output, loss_fn(output)
    if isinstance(batch, (tuple, list)) and len(batch) > 1:
        output = model(*batch[:-1])
        return output, loss_fn(output, batch[-1])
    output = model(*batch) if isinstance(batch, (tuple, list)) else model(batch)
    return output, loss_fn(output)


def _gradients(loss: Tensor, parameters: Sequence[Tensor]) -> Sequence[Tensor | None]:
    """The gradients without filling any `.grad`; a loss that depends on nothing gives none."""
    if not parameters or not loss.requires_grad:
        return [None] * len(parameters)
    return grad(loss, parameters, allow_unused=True)  # type: ignore[no-any-return]


@contextmanager
def untouched(model: Module) -> Iterator[None]:
    """Put buffers and the random states back afterwards, whatever happens inside."""
    buffers = [(owner, name, b, None if b is None else b.array.copy()) for owner, name, b in _buffers(model)]
    states = get_rng_state(), random.getstate(), np.random.get_state()  # noqa: NPY002 (the old global state is the one users seed)
    try:
        yield
    finally:
        set_rng_state(states[0])
        random.setstate(states[1])
        np.random.set_state(states[2])  # noqa: NPY002
        for owner, name, buffer, before in buffers:
            owner._buffers[name] = buffer
            if buffer is None or before is None:
                continue
            if not np.array_equal(buffer.array, before, equal_nan=before.dtype.kind in "fc"):
                with no_grad():
                    buffer.copy_(Tensor.from_data(before))


def _buffers(model: Module) -> Iterator[tuple[Any, str, Any]]:
    for module in model.modules():
        for name, buffer in module._buffers.items():
            yield module, name, buffer


# --- numbers


def _measured_all(values: Any, name: str) -> list[Measured]:
    """Every floating-point tensor of a batch or an output."""
    tensors = [leaf for leaf in flatten(values)[0] if isinstance(leaf, Tensor) and leaf.is_floating_point()]
    names = [name] if len(tensors) == 1 else [f"{name}[{i}]" for i in range(len(tensors))]
    return [_measured(label, tensor.array) for label, tensor in zip(names, tensors, strict=True)]


def _measured_gradient(name: str, parameter: Tensor, gradient: Tensor | None) -> Measured:
    if gradient is None:
        return Measured(name, tuple(parameter.array.shape), 0.0, 0.0, 0.0, 0, 0, missing=True)
    return _measured(name, gradient.array)


def _measured(name: str, array: np.ndarray) -> Measured:
    values = np.asarray(array if array.dtype.kind in "fc" else array.astype(np.float32))
    finite = np.abs(values[np.isfinite(values)]) if values.dtype.kind == "c" else values[np.isfinite(values)]
    smallest, largest = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    nan, inf = int(np.isnan(values).sum()), int(np.isinf(values).sum())
    return Measured(name, tuple(values.shape), norm(finite), smallest, largest, nan, inf)
