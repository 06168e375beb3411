"""Steps that are part of the graph, for `differentiable=True`: the kernels of the optimizers run on recorded values.

A kernel speaks NumPy and writes into the arrays of its block. Here the block holds values that answer NumPy's
functions with operations on tensors, and a write gives a value another tensor. So each optimizer is written once.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pellucid.core.inplace import check_writable, overwrite
from pellucid.core.tensor import Tensor
from pellucid.interop.vocabulary import torch
from pellucid.optim._block import Block
from pellucid.optim.optimizer import Group


class Value:
    """A tensor that kernels take for an array: NumPy's ufuncs compute with it, `out` replaces it."""

    size = 0  # too few for loops in machine code

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None) -> "Value":
        result = getattr(ufunc, method)(*map(unwrapped, inputs))
        if out is None:
            return Value(result)
        out[0].tensor = result
        return out[0]  # type: ignore[no-any-return]

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> None:
        if function is not np.copyto:
            raise TypeError(f"a recorded step cannot compute numpy.{function.__name__}")
        copied(*arguments, **options)

    def __neg__(self) -> "Value":
        return Value(-self.tensor)

    def __ne__(self, other: object) -> bool:
        return bool(self.tensor != unwrapped(other))


def unwrapped(value: Any) -> Any:
    """The tensor of a value; numbers are what they are."""
    return value.tensor if isinstance(value, Value) else value


def _operator(function: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    """An operator of values and its reflected form."""
    return (
        lambda value, other: Value(function(value.tensor, unwrapped(other))),
        lambda value, other: Value(function(other, value.tensor)),
    )


for _name in ("add", "sub", "mul", "truediv", "pow"):
    for _prefix, _method in zip(("__", "__r"), _operator(getattr(operator, _name)), strict=True):
        setattr(Value, f"{_prefix}{_name}__", _method)


def copied(target: Value, source: Any, where: Any = True) -> None:
    """`np.copyto` for recorded values."""
    source = unwrapped(source)
    if not isinstance(source, Tensor):
        source = torch.full_like(target.tensor, source)
    target.tensor = source if where is True else torch.where(where.tensor, source, target.tensor)


def recorded_options(group: Group) -> Group:
    """The options of a group, with those that are tensors as values: a gradient may come back to them."""
    return {name: recorded(value) for name, value in group.items() if name != "params"}


def recorded(option: Any) -> Any:
    """An option as kernels take it."""
    if isinstance(option, tuple):
        return tuple(recorded(each) for each in option)
    return Value(option) if isinstance(option, Tensor) else option


class RecordedBlock(Block):
    """One parameter and its state as recorded values, written into their tensors when the kernel has run."""

    __slots__ = ("changed", "kept", "name", "own")

    def __init__(self, p: Tensor, state: dict[str, Any], slots: Sequence[str], counters: Sequence[str],
                 name: str) -> None:  # fmt: skip
        targets = [p, *(state[slot] for slot in slots)]
        for target in targets:
            check_writable(target, name)
        self.name, self.parameters, self.kept = name, [p], {counter: state[counter] for counter in counters}
        self.changed = [(target, Value(as_real(target).clone())) for target in targets]
        values: Any = [value for _, value in self.changed]
        self.own, self.slots, self.parts = values[0], tuple(values[1:]), [(values[0], 0, 0)]
        self.size, self.traced, self.fresh, self.buffers = 0, False, False, {}

    def buffer(self, index: int, dtype: np.dtype | None = None) -> Any:
        scratch: Any = Value(torch.zeros_like(self.own.tensor))
        return self.buffers.setdefault(index, scratch)

    def gradient(self, maximize: bool = False, decay: Any = 0) -> Any:
        g: Any = Value(as_real(self.parameters[0]._grad))
        g = -g if maximize else g
        return g + decay * self.own if decay != 0 else g

    def add(self, direction: Any, factor: Any) -> None:
        self.own.tensor = (self.own + factor * direction).tensor

    def shrink(self, factor: Any) -> None:
        self.own.tensor = (self.own * factor).tensor

    def begin(self, kept: Any, value: Any) -> None:
        kept.tensor = value.tensor.detach()  # as PyTorch does: no gradient flows through the first value

    def renew(self, name: str, change: Callable[[Any], Any]) -> Any:
        self.kept[name].detach().fill_(float(unwrapped(change(self.value(name)))))
        return self.value(name)

    def value(self, name: str) -> Any:
        return self.kept[name].item()

    def finish(self) -> None:
        """Write the values into parameter and state, with their history."""
        for target, value in self.changed:
            # As an operation of its own: the one that made the value may be older than others that used it.
            result = torch.view_as_complex(value.tensor) if target.is_complex() else value.tensor.clone()
            overwrite(target, result, self.name)


def as_real(tensor: Any) -> Tensor:
    """A tensor whose complex numbers are pairs, as the kernels take them."""
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor  # type: ignore[no-any-return]
