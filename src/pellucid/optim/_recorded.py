"""Steps that are part of the graph, for `differentiable=True`: the kernels of the optimizers run on recorded values.

A kernel speaks NumPy and writes into the arrays of its block. Here the block holds values that answer NumPy's
functions with operations on tensors, and a write gives a value another tensor. So each optimizer is written once.
"""

import operator
from collections.abc import Callable, Sequence
from operator import setitem
from typing import Any

import numpy as np

from pellucid.core.commit import Call
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

    def __setitem__(self, where: Any, source: Any) -> None:
        source = unwrapped(source)
        if not isinstance(source, Tensor):
            source = torch.full_like(self.tensor, source)
        self.tensor = source if where is ... else torch.where(where.tensor, source, self.tensor)

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


def recorded_options(group: Group) -> Group:
    """The options of a group, with those that are tensors as values: a gradient may come back to them."""
    return {name: recorded(value) for name, value in group.items() if name != "params"}


def recorded(option: Any) -> Any:
    """An option as kernels take it."""
    if isinstance(option, tuple):
        return tuple(recorded(each) for each in option)
    return Value(option) if isinstance(option, Tensor) else option


class RecordedBlock(Block):
    """One parameter and its state as recorded values, written into their tensors when the kernels have run."""

    __slots__ = ("changed", "kept", "name", "own", "renewed")

    def __init__(self, p: Tensor, state: dict[str, Any], slots: Sequence[str], counters: Sequence[str], name: str,
                 earlier: Sequence["RecordedBlock"]) -> None:  # fmt: skip
        targets = [p, *(state[slot] for slot in slots)]
        for target in targets:
            check_writable(target, name)
        self.name, self.parameters, self.kept = name, [p], {counter: state[counter] for counter in counters}
        again = next((block for block in reversed(earlier) if block.parameters[0] is p), None)
        self.renewed: dict[str, float] = {} if again is None else dict(again.renewed)
        started = [as_real(target).clone() for target in targets] if again is None else again.results()
        self.changed = [(target, Value(tensor)) for target, tensor in zip(targets, started, strict=True)]
        values: Any = [value for _, value in self.changed]
        self.own, self.slots, self.parts = values[0], tuple(values[1:]), [(values[0], 0, 0)]
        self.size, self.blas, self.traced, self.fresh, self.buffers, self.calls = 0, None, False, False, {}, []

    def results(self) -> list[Any]:
        """What the kernel made of the parameter and of its state."""
        return [value.tensor for _, value in self.changed]

    def buffer(self, index: int, dtype: np.dtype | None = None) -> Any:
        scratch: Any = Value(torch.zeros_like(self.own.tensor))
        return self.buffers.setdefault(index, scratch)

    def gradient(self, maximize: bool = False, decay: Any = 0) -> Any:
        g: Any = Value(as_real(self.parameters[0]._grad))
        g = -g if maximize else g
        return g + decay * self.own if decay != 0 else g

    def add(self, direction: Any, factor: Any) -> None:
        self.axpy(factor, direction, self.own)

    def begin(self, kept: Any, value: Any) -> None:
        self.copy(kept, Value(value.tensor.detach()))  # as PyTorch does: no gradient flows through the first value

    def advance(self) -> Any:
        return self.renew("step", lambda step: step + 1)

    def renew(self, name: str, change: Callable[[Any], Any]) -> Any:
        new = float(unwrapped(change(self.value(name))))
        self.renewed[name] = float(self.kept[name].array.dtype.type(new))
        return self.renewed[name]

    def value(self, name: str) -> Any:
        return self.renewed[name] if name in self.renewed else self.kept[name].item()

    def before(self) -> list[Call]:
        """The calls that take `finish` back."""
        calls: list[Call] = [(setitem, kept.array, ..., kept.array.copy()) for kept in self.kept.values()]
        for target, _ in self.changed:
            calls += as_it_is(target)
        return calls

    def finish(self) -> None:
        """Write the values into parameter and state, with their history."""
        for target, value in self.changed:
            # As an operation of its own: the one that made the value may be older than others that used it.
            result = torch.view_as_complex(value.tensor) if target.is_complex() else value.tensor.clone()
            overwrite(target, result, self.name)
        for name, number in self.renewed.items():
            self.kept[name].detach().fill_(number)


def as_it_is(target: Tensor) -> list[Call]:
    """The calls that give a tensor back its values and its history, and the one it is a view of, too."""
    calls: list[Call] = []
    if isinstance(target.array, np.ndarray):
        calls.append((setitem, target.array, ..., target.array.copy()))
    view = target.window
    if view is not None:
        calls += [(setattr, view, name, getattr(view, name)) for name in ("base_array", "base_node", "born")]
    for tensor in (target,) if view is None else (target, view.base):
        calls += [(setattr, tensor, name, getattr(tensor, name)) for name in ("array", "node", "cut")]
        if tensor.node is not None and tensor.node.extra is not None:
            calls.append((setattr, tensor.node.extra, "retain", tensor.node.extra.retain))
    return calls


def as_real(tensor: Any) -> Tensor:
    """A tensor whose complex numbers are pairs, as the kernels take them."""
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor  # type: ignore[no-any-return]
