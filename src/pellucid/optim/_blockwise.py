"""Blockwise: an optimizer that writes one kernel, `_update(block, group)`; all of them are, but LBFGS.

The blocks are kept from step to step: a step allocates nothing, it only looks whether everything is as it was.
"""

import operator
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from pellucid.core import modes
from pellucid.core.aliasing import note_writes, tick
from pellucid.core.inplace import check_writable
from pellucid.core.kinds import Kind
from pellucid.core.provenance import here
from pellucid.core.tensor import Tensor, wrap
from pellucid.errors import CaptureError, explain
from pellucid.optim._block import NOTHING, REAL, Block, Pool
from pellucid.optim._recorded import RecordedBlock, recorded_options
from pellucid.optim.optimizer import Group, Optimizer, called, counter, tell_written

ndarray = np.ndarray

SMALL = 8192  # elements: up to this size joining costs less than the calls it saves (measured break-even near 16 000)
JOINED = 32768  # elements that are joined at most: more would not stay in the cache


class Blockwise(Optimizer):
    """An optimizer whose step is one kernel, run on the elements of each parameter, or of many of them, in a row."""

    joins: ClassVar[bool] = True  # whether the kernel makes so many calls that joining small parameters pays
    _plans: dict[int, "Plan"]  # by the number of the group

    def _slots(self, group: Group) -> tuple[str, ...]:
        """The names of the state that has the parameter's shape."""
        raise NotImplementedError

    def _counters(self) -> tuple[str, ...]:
        """The names of the numbers that are kept for each parameter, as tensors of their own."""
        return ("step",)

    def _first(self, name: str, group: Group) -> float:
        """The value that state of a name begins with."""
        return 0.0

    def _update(self, block: Block, group: Group) -> None:
        """One step for a block: reads `block.gradient`, changes `block.slots`, calls `block.add`."""
        raise NotImplementedError

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change every parameter that has a gradient by one step; a closure computes the loss anew before."""
        loss = called(closure)
        if self.defaults.get("differentiable"):
            self._step_recorded()
            return loss
        ready = [(block, group) for i, group in enumerate(self.param_groups) for block in self._ready(i, group)]
        name = f"{type(self).__name__}.step"
        note_writes([write for block, _ in ready for write in block.writes], name)
        for block, group in ready:
            self._update(block, group)
            if block.fresh or block.staged:
                block.finish()
        if modes.MODE.get() is not None:
            tell_written([p for block, _ in ready for p in block.parameters], name)
        return loss

    def _step_recorded(self) -> None:
        """The step as operations on tensors, so that gradients flow through it."""
        name = f"{type(self).__name__}.step"
        with modes.recording(True):
            for group in self.param_groups:
                options = recorded_options(group)
                for p in (p for p in group["params"] if p._grad is not None):
                    check_writable(p, name)
                    new = self._initialised(p, group)
                    block = RecordedBlock(p, self.state[p], self._slots(group), self._counters(), name)
                    block.fresh = new
                    self._update(block, options)
                    block.finish()

    # --- which blocks there are

    def _prepare(self) -> None:
        super()._prepare()
        self._plans, self._pool, self._born = {}, Pool(), tick()

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._plans = {}
        for group in self.param_groups:
            for kept in [self.state[p] for p in group["params"] if p in self.state]:
                for name in self._counters():
                    if name in kept and not isinstance(kept[name], Tensor):  # PyTorch kept Python numbers once
                        kept[name] = counter(float(kept[name]))

    def _ready(self, index: int, group: Group) -> list[Block]:
        """The blocks of a group's parameters that have gradients."""
        plan = self._plans.get(index)
        slots = self._slots(group)
        if plan is None or plan.slots != slots or not plan.is_for(group["params"]):
            plan = self._plans[index] = Plan(group["params"], slots, self.joins)
        traced = modes.current().tracer is not None
        ready = []
        for i, block in enumerate(plan.blocks):
            if block is not None and not traced and block.is_current(self.state):
                ready.append(block)
                continue
            together = plan.parts[i]
            made = self._made([p for p in together if p._grad is not None], group, len(together))
            whole = len(made) == 1 and len(made[0].parameters) == len(together) and made[0].lasting
            plan.blocks[i] = made[0] if whole else None
            ready += made
        return ready

    def _made(self, params: list[Tensor], group: Group, wanted: int) -> list[Block]:
        """New blocks for parameters: one for all if nothing speaks against it, otherwise one for each."""
        fresh = [self._initialised(p, group) for p in params]
        states = [self.state.get(p, NOTHING) for p in params]
        names = self._slots(group), self._counters()
        if 1 < len(params) == wanted and len(set(fresh)) == 1 and _alike(params, states, names):
            blocks = [Block(params, states, *names, self._pool)]
        else:
            blocks = [Block([p], [state], *names, self._pool) for p, state in zip(params, states, strict=True)]
        for block, new in zip(blocks, fresh, strict=False):
            block.fresh = new
        return blocks

    def _initialised(self, p: Tensor, group: Group) -> bool:
        """Give a parameter the state it needs and has not got; tells whether it was new."""
        name = f"{type(self).__name__}.step"
        if isinstance(p.array, Kind):
            p.array.concrete(name)
        with modes.recording(False):
            check_writable(p, name)
        slots = self._slots(group)
        if not slots:
            return False
        state = self.state[p]
        new = False
        if any(state.get(key) is None for key in (*self._counters(), *slots)):
            self._refuse_new_state(name)
        for key in self._counters():
            if key not in state:
                state[key] = counter(self._first(key, group))
        for key in slots:
            if state.get(key) is None:
                state[key] = wrap(_filled(p.array.shape, p.array.dtype, self._first(key, group)))
                new = True
        return new

    def _refuse_new_state(self, name: str) -> None:
        """A captured program would make state anew at every replay: right only if it makes the optimizer too."""
        tracer = modes.current().tracer
        if tracer is not None and self._born < tracer.born:
            raise CaptureError(
                explain(
                    f"{name}: the optimizer makes its state in this step",
                    str(here()),
                    "the program would do so at every replay: averages, momentum and counters would start again",
                    "take one step before the capture",
                )
            )


def _filled(shape: tuple[int, ...], dtype: np.dtype, value: float) -> ndarray:
    """A new array; of complex numbers real and imaginary parts are filled alike, as kernels see them as pairs."""
    return np.full(shape, complex(value, value) if dtype in REAL else value, dtype)


class Plan:
    """How the parameters of a group are divided into blocks, and the blocks as far as they are made."""

    def __init__(self, params: list[Tensor], slots: tuple[str, ...], joins: bool) -> None:
        self.params, self.slots = list(params), slots  # an option that changes may ask for other slots
        self.parts = _divided(self.params, joins)
        self.blocks: list[Block | None] = [None] * len(self.parts)

    def is_for(self, params: list[Tensor]) -> bool:
        """Whether a group still has the parameters it had."""
        return len(params) == len(self.params) and all(map(operator.is_, params, self.params))


def _divided(params: list[Tensor], joins: bool) -> list[list[Tensor]]:
    """Large parameters alone, small ones of one dtype together until there are enough elements."""
    parts: list[list[Tensor]] = []
    filling: dict[np.dtype, tuple[list[Tensor], int]] = {}
    for p in params:
        size, dtype = p.array.size, np.dtype(p.array.dtype)
        together, room = filling.get(dtype, ([], 0))
        if joins and size <= min(SMALL, room):
            together.append(p)
            filling[dtype] = together, room - size
            continue
        parts.append([p])
        if size <= SMALL:
            filling[dtype] = parts[-1], JOINED - size
    return parts


def _alike(params: list[Tensor], states: list[Any], names: tuple[tuple[str, ...], tuple[str, ...]]) -> bool:
    """Whether parameters can be updated as one: plain memory, state of their dtype, and the same counters."""
    dtype = params[0].array.dtype
    if dtype.itemsize == 2 or len({id(p) for p in params}) < len(params):
        return False
    for p, state in zip(params, states, strict=True):
        array = p.array
        if type(array) is not ndarray or array.dtype != dtype or not array.flags.c_contiguous:
            return False
        if any(state[name].array.shape != array.shape or state[name].array.dtype != dtype for name in names[0]):
            return False
    return all(len({(state[name].array.dtype, state[name].item()) for state in states}) == 1 for name in names[1])
