"""Blockwise: an optimizer that writes one kernel, `_update(block, group)`; all of them are, but LBFGS.

The blocks are kept from step to step: a step allocates nothing, it only looks whether everything is as it was. Then
the kernels write down what is to be done for each block, and all of it is done in one call into C.
"""

import operator
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from pellucid.core import modes
from pellucid.core.aliasing import Write, note_writes, tick
from pellucid.core.blas import one_thread
from pellucid.core.commit import Call, together, undoing
from pellucid.core.inplace import check_memory, check_writable
from pellucid.core.kinds import Kind
from pellucid.core.provenance import here
from pellucid.core.tensor import Tensor, wrap
from pellucid.errors import CaptureError, explain
from pellucid.optim._block import NOTHING, REAL, Block, Pool
from pellucid.optim._recorded import RecordedBlock, recorded_options
from pellucid.optim.optimizer import Group, Optimizer, called, counter, tell_written

ndarray = np.ndarray
States = dict[Tensor, dict[str, Any]]  # of parameters: the state that a step makes

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
        """Write down one step for a block in `block.calls`, from the gradient by way of the slots to the parameters.

        Whatever it reads itself (numbers, counters) is as it was before the step; nothing is changed here.
        """
        raise NotImplementedError

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change every parameter that has a gradient by one step; a closure computes the loss anew before.

        All or nothing: Ctrl-C or an error leaves parameters and state as they were before the step, or as after it.
        """
        loss = called(closure)
        if self.defaults.get("differentiable"):
            self._step_recorded()
            return loss
        calls: list[Call] = []
        writes: list[Write] = []
        written: list[Tensor] = []
        wakes, undo = False, None
        new: States = {}
        traced = modes.current().tracer is not None
        try:
            for i, group in enumerate(self.param_groups):
                for block in self._ready(i, group, traced, new):
                    block.calls = calls
                    self._update(block, group)
                    if block.fresh or block.staged:
                        block.finish()
                    writes += block.writes
                    written += block.parameters
                    wakes = wakes or block.wakes
                    if self._repeats:  # the next block may have to begin with what this one leaves
                        if undo is None:
                            before = self._unkept()
                            undo = undoing(before)
                        before[:0] = block.before()
                        run(calls, traced, block.wakes)
                        calls.clear()
            if new:
                calls[:0] = self._kept(new)  # first: a dictionary that grows may find no memory
            note_writes(writes, self._name)
            run(calls, traced, wakes)
        except BaseException:
            if undo is not None:
                undo()
            raise
        finally:
            calls.clear()  # it holds the gradients
        if modes.MODE.get() is not None:
            tell_written(written, self._name)
        return loss

    def _step_recorded(self) -> None:
        """The step as operations on tensors, so that gradients flow through it."""
        new: States = {}
        blocks: list[RecordedBlock] = []
        with modes.recording(True):
            for group in self.param_groups:
                options = recorded_options(group)
                for p in (p for p in group["params"] if p._grad is not None):
                    check_writable(p, self._name)
                    state, fresh = self._initialised(p, group, new)
                    block = RecordedBlock(p, state, self._slots(group), self._counters(), self._name, blocks)
                    block.fresh = fresh
                    self._update(block, options)
                    run(block.calls, traced=True, wakes=False)
                    blocks.append(block)
            undo = undoing([*(call for block in blocks for call in block.before()), *self._unkept()])
            try:
                for block in blocks:
                    block.finish()
                together(self._kept(new))
            except BaseException:
                undo()
                raise

    # --- which blocks there are

    def _prepare(self) -> None:
        super()._prepare()
        self._plans, self._pool, self._born = {}, Pool(), tick()
        self._name = f"{type(self).__name__}.step"
        self._repeats = False  # whether a group has a parameter twice

    def __setstate__(self, state: dict[str, Any]) -> None:
        for group in state["param_groups"]:
            for kept in [state["state"][p] for p in group["params"] if p in state["state"]]:
                for name in self._counters():
                    if name in kept and not isinstance(kept[name], Tensor):  # PyTorch kept Python numbers once
                        kept[name] = counter(float(kept[name]))
        super().__setstate__({**state, "_plans": {}})

    def _ready(self, index: int, group: Group, traced: bool, new: States) -> list[Block]:
        """The blocks of a group's parameters that have gradients; state that had to be made goes into `new`."""
        plan = self._plans.get(index)
        slots = self._slots(group)
        if plan is None or plan.slots != slots or not plan.is_for(group["params"]):
            plan = Plan(group["params"], slots, self.joins)
            self._repeats = any(each.repeats for each in {**self._plans, index: plan}.values())
            self._plans[index] = plan  # last: an interrupt before it leaves nothing to be relied upon
        ready = []
        for i, block in enumerate(plan.blocks):
            if block is not None and not traced and block.is_current(self.state):
                ready.append(block)
                continue
            part = plan.parts[i]
            made = self._made([p for p in part if p._grad is not None], group, len(part), new)
            whole = len(made) == 1 and len(made[0].parameters) == len(part) and made[0].lasting
            plan.blocks[i] = made[0] if whole else None
            ready += made
        return ready

    def _made(self, params: list[Tensor], group: Group, wanted: int, new: States) -> list[Block]:
        """New blocks for parameters: one for all if nothing speaks against it, otherwise one for each."""
        found = [self._initialised(p, group, new) for p in params]
        states, fresh = [state for state, _ in found], [is_fresh for _, is_fresh in found]
        names = self._slots(group), self._counters()
        if 1 < len(params) == wanted and len(set(fresh)) == 1 and _alike(params, states, names):
            blocks = [Block(params, states, *names, self._pool)]
        else:
            blocks = [Block([p], [state], *names, self._pool) for p, state in zip(params, states, strict=True)]
        for block, is_fresh in zip(blocks, fresh, strict=False):
            block.fresh = is_fresh
        return blocks

    def _initialised(self, p: Tensor, group: Group, new: States) -> tuple[dict[str, Any], bool]:
        """The state of a parameter, and whether it begins with this step; what is missing is made, in `new`."""
        if isinstance(p.array, Kind):
            p.array.concrete(self._name)
        check_memory(p, self._name)
        state = new.get(p) or self.state.get(p, NOTHING)
        missing = self._missing(p, group, state)
        if missing:
            self._refuse_new_state()
            state = new[p] = {**state, **missing}
        return state, not missing.keys().isdisjoint(self._slots(group))

    def _missing(self, p: Tensor, group: Group, state: dict[str, Any]) -> dict[str, Tensor]:
        """The state that a parameter needs and has not got."""
        slots = self._slots(group)
        if not slots:
            return {}
        numbers = {key: counter(self._first(key, group)) for key in self._counters() if key not in state}
        arrays = {
            key: wrap(_filled(p.array.shape, p.array.dtype, self._first(key, group)))
            for key in slots
            if state.get(key) is None
        }
        return {**numbers, **arrays}

    def _kept(self, new: States) -> list[Call]:
        """The calls that put new state where it belongs; a dictionary that is there stays the same one."""
        unknown = {p: state for p, state in new.items() if p not in self.state}
        known = [(self.state[p].update, state) for p, state in new.items() if p in self.state]
        return [(self.state.update, unknown), *known]

    def _unkept(self) -> list[Call]:
        """The calls that take new state away again."""
        calls: list[Call] = [(self.state.clear,), (self.state.update, dict(self.state))]
        for state in self.state.values():
            calls += [(state.clear,), (state.update, dict(state))]
        return calls

    def _refuse_new_state(self) -> None:
        """A captured program would make state anew at every replay: right only if it makes the optimizer too."""
        tracer = modes.current().tracer
        if tracer is not None and self._born < tracer.born:
            raise CaptureError(
                explain(
                    f"{self._name}: the optimizer makes its state in this step",
                    str(here()),
                    "the program would do so at every replay: averages, momentum and counters would start again",
                    "take one step before the capture",
                )
            )


def _filled(shape: tuple[int, ...], dtype: np.dtype, value: float) -> ndarray:
    """A new array; of complex numbers real and imaginary parts are filled alike, as kernels see them as pairs."""
    return np.full(shape, complex(value, value) if dtype in REAL else value, dtype)


def run(calls: list[Call], traced: bool, wakes: bool) -> None:
    """Run the calls of a step; those that a capture writes down, or that are recorded, are calls of Python.

    `wakes`: among them is a vector so long that SciPy's BLAS would wake its threads.
    """
    if traced:
        for function, *arguments in calls:
            function(*arguments)
    else:
        together(one_thread.around(calls) if wakes else calls)


class Plan:
    """How the parameters of a group are divided into blocks, and the blocks as far as they are made."""

    def __init__(self, params: list[Tensor], slots: tuple[str, ...], joins: bool) -> None:
        self.params, self.slots = list(params), slots  # an option that changes may ask for other slots
        self.parts = _divided(self.params, joins)
        self.blocks: list[Block | None] = [None] * len(self.parts)
        self.repeats = len({id(p) for p in params}) < len(params)

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
