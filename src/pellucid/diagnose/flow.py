"""Small tools for a look at the gradients of a model: a table with bars, a search for NaN and Inf, hooks that raise."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from math import isfinite, log10
from typing import Any, Literal, NamedTuple

import numpy as np

from pellucid.core.provenance import here
from pellucid.core.tensor import Handle, Tensor
from pellucid.diagnose.batch import BatchReport, inspect_batch
from pellucid.diagnose.modules import model_for
from pellucid.diagnose.naming import number
from pellucid.diagnose.pulling import norm
from pellucid.errors import AnomalyError, explain
from pellucid.nn.modules.module import Module

__all__ = [
    "BadGradient",
    "BatchReport",
    "GradientFlow",
    "GradientHooks",
    "attach_gradient_nan_hooks",
    "check_gradient_flow",
    "find_nan_gradients",
    "inspect_batch",
]

Status = Literal["OK", "NO GRADIENT", "ZERO", "NAN", "INF"]
BAR = 24  # the length of the longest bar


@dataclass(frozen=True, slots=True)
class Row:
    """The gradient of one parameter beside the parameter itself."""

    name: str
    status: Status
    grad_norm: float | None
    param_norm: float
    ratio: float | None  # grad_norm / (param_norm + 1e-8)
    frozen: bool  # requires_grad is False: there will never be a gradient


class GradientFlow:
    """What `check_gradient_flow` found: rows from the first parameter to the last; `str` gives a table with bars."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, name: str) -> Row:
        """The row of one parameter, by name."""
        return next(row for row in self.rows if row.name == name)

    @property
    def ok(self) -> bool:
        """Whether every parameter that is not frozen has a finite gradient that is not zero."""
        return all(row.status == "OK" or row.frozen for row in self.rows)

    def as_json(self) -> list[dict[str, Any]]:
        """The rows as plain values."""
        return [asdict(row) for row in self.rows]

    def __str__(self) -> str:
        if not self.rows:
            return "the model has no parameters"
        width = max(len("parameter"), *(len(row.name) for row in self.rows))
        head = f"{'parameter':<{width}}  {'status':<11}  {'|grad|':>9}  {'|param|':>9}  {'ratio':>9}  |grad|, log scale"
        return "\n".join([head, *(self._line(row, width) for row in self.rows)])

    def _line(self, row: Row, width: int) -> str:
        numbers = ["-" if value is None else number(value) for value in (row.grad_norm, row.param_norm, row.ratio)]
        grad, param, ratio = numbers
        note = " frozen" if row.frozen else ""
        line = f"{row.name:<{width}}  {row.status:<11}  {grad:>9}  {param:>9}  {ratio:>9}  {self.bar(row)}{note}"
        return line.rstrip()

    def bar(self, row: Row) -> str:
        """The norm of a gradient as a bar, on the scale of all of them: one character is the same factor everywhere."""
        sizes = [log10(each.grad_norm) for each in self.rows if each.status == "OK" and each.grad_norm]
        if row.status != "OK" or not row.grad_norm:
            return ""
        top, bottom = max(sizes), min(min(sizes), max(sizes) - 3)
        return "█" * max(1, round(BAR * (log10(row.grad_norm) - bottom) / (top - bottom)))

    def plot(self, axes: Any = None) -> Any:
        """Draw the norms as bars with matplotlib, and return the axes."""
        try:
            from matplotlib import pyplot
        except ImportError:
            raise ImportError(
                explain(
                    "plot() needs matplotlib",
                    here().text,
                    "it is not installed",
                    "pip install 'pellucid[plot]'; print(flow) shows the same bars as text",
                )
            ) from None
        axes = axes if axes is not None else pyplot.figure(layout="constrained").gca()
        heights = [row.grad_norm if row.grad_norm and isfinite(row.grad_norm) else 0.0 for row in self.rows]
        colours = ["tab:blue" if row.status == "OK" else "tab:grey" if row.frozen else "tab:red" for row in self.rows]
        axes.barh([row.name for row in self.rows], heights, color=colours)
        for at, row in enumerate(self.rows):
            if row.status != "OK":
                axes.annotate(f" {'frozen' if row.frozen else row.status}", (0, at), va="center")
        if any(heights):
            axes.set_xscale("log")
        axes.invert_yaxis()
        axes.set_xlabel("norm of the gradient")
        return axes


def check_gradient_flow(model: Module) -> GradientFlow:
    """Compare every parameter with its gradient: call it between backward() and step().

    >>> import pellucid as torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    >>> model[1](torch.ones(1, 2)).sum().backward()
    >>> [row.status for row in check_gradient_flow(model)]
    ['NO GRADIENT', 'NO GRADIENT', 'OK', 'OK']
    """
    named = model_for("check_gradient_flow", model).named_parameters()
    return GradientFlow([_row(name, parameter) for name, parameter in named])


def _row(name: str, parameter: Tensor) -> Row:
    own = norm(parameter.array)
    grad = parameter._grad
    if grad is None:
        return Row(name, "NO GRADIENT", None, own, None, parameter.node is None)
    length = norm(grad.array)
    return Row(name, _status(grad.array), length, own, length / (own + 1e-8), parameter.node is None)


def _status(gradient: np.ndarray) -> Status:
    values = _plain(gradient)
    if np.isnan(values).any():
        return "NAN"
    if np.isinf(values).any():
        return "INF"
    return "OK" if values.any() or not values.size else "ZERO"


def _plain(gradient: np.ndarray) -> np.ndarray:
    """Half precision and the like in a type NumPy can test."""
    return gradient if gradient.dtype.kind in "fc" else gradient.astype(np.float32)


# --- NaN and Inf


class BadGradient(NamedTuple):
    """A parameter whose gradient holds NaN or Inf, and how many of each."""

    name: str
    nan: int
    inf: int
    size: int

    def __str__(self) -> str:
        return f"{self.name}: {self.nan} NaN and {self.inf} Inf among {self.size} elements"


def find_nan_gradients(model: Module) -> list[BadGradient]:
    """The parameters whose gradient holds NaN or Inf, with the counts.

    >>> import pellucid as torch
    >>> layer = torch.nn.Linear(1, 1)
    >>> (layer(torch.ones(1, 1)) * float("inf")).sum().backward()
    >>> [str(bad) for bad in find_nan_gradients(layer)]
    ['weight: 0 NaN and 1 Inf among 1 elements', 'bias: 0 NaN and 1 Inf among 1 elements']
    """
    named = model_for("find_nan_gradients", model).named_parameters()
    found = [_counted(name, p._grad.array) for name, p in named if p._grad is not None]
    return [bad for bad in found if bad.nan or bad.inf]


def _counted(name: str, gradient: np.ndarray) -> BadGradient:
    values = _plain(gradient)
    return BadGradient(name, int(np.isnan(values).sum()), int(np.isinf(values).sum()), values.size)


# --- hooks

OnBad = Callable[[str, int, Tensor], Any]


class GradientHooks:
    """The hooks of `attach_gradient_nan_hooks`: `remove()` takes them off again; also a context manager."""

    def __init__(self, model: Module, on_bad: OnBad) -> None:
        self.on_bad = on_bad
        self.handles: list[Handle] = [
            parameter.register_hook(self._check(name))
            for name, parameter in model.named_parameters()
            if parameter.node is not None
        ]

    def _check(self, name: str) -> Callable[[Tensor], None]:
        steps = 0

        def check(gradient: Tensor) -> None:
            nonlocal steps
            step, steps = steps, steps + 1
            if not np.isfinite(_plain(gradient.array)).all():
                self.on_bad(name, step, gradient)

        return check

    def remove(self) -> None:
        """Take all hooks off."""
        for handle in self.handles:
            handle.remove()
        self.handles = []

    def __enter__(self) -> "GradientHooks":
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


def attach_gradient_nan_hooks(model: Module, on_bad: "OnBad | Literal['raise']" = "raise") -> GradientHooks:
    """Look at every gradient of the model when backward makes it, and raise (or call `on_bad`) at the first NaN or Inf.

    The error leaves every `.grad` as it was. A function `on_bad(name, step, gradient)` is called instead of raising;
    steps count the backward passes since the hooks were attached, from 0.

    >>> import pellucid as torch
    >>> layer = torch.nn.Linear(1, 1, bias=False)
    >>> with attach_gradient_nan_hooks(layer, on_bad=lambda name, step, gradient: print(name, step)):
    ...     (layer(torch.ones(1, 1)) * float("nan")).sum().backward()
    weight 0
    """
    if on_bad != "raise" and not callable(on_bad):
        raise TypeError(f"attach_gradient_nan_hooks: on_bad is 'raise' or a function, not {type(on_bad).__name__}")
    model_for("attach_gradient_nan_hooks", model)
    return GradientHooks(model, _refuse if on_bad == "raise" else on_bad)


def _refuse(name: str, step: int, gradient: Tensor) -> None:
    bad = _counted(name, gradient.array)
    raise AnomalyError(
        explain(
            f"the gradient of {name} is not finite at step {step}",
            here().text,
            f"{bad.nan} NaN and {bad.inf} Inf among {bad.size} elements",
            "print(pellucid.why(parameter, loss=loss)) before this backward names the operation that makes it",
        )
    )
