"""Checkpointing: keep the input of a segment instead of its activations, and run it again for backward.

While the segment runs, saved-tensor hooks put a number in the place of every value that backward will need. The
first number that backward asks for runs the segment once more and collects the values; they are handed out one by
one and freed as they are used. Every value is compared with what the first run noted about it, so a segment that
does something else the second time is an error that names the operation, never a wrong gradient.
"""

import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, replace
from enum import Enum
from importlib import import_module
from importlib.util import find_spec
from math import inf
from typing import Any

import numpy as np

from pellucid.core import aliasing, backward, modes
from pellucid.core.function import Function, FunctionCtx, once_differentiable
from pellucid.core.kinds import layers, memory_of, moved
from pellucid.core.packing import PACKING, packed_value, unpacked
from pellucid.core.primitive import same
from pellucid.core.provenance import here
from pellucid.core.tensor import Tensor, wrap
from pellucid.core.views import current_array, current_node
from pellucid.errors import CheckpointError, InplaceError, explain

__all__ = [
    "CheckpointError", "CheckpointFunction", "CheckpointPolicy", "DefaultDeviceType", "SelectiveCheckpointContext",
    "check_backward_validity", "checkpoint", "checkpoint_sequential", "create_selective_checkpoint_contexts",
    "detach_variable", "get_device_states", "noop_context_fn", "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop", "set_device_states",
]  # fmt: skip

EARLY_STOP: ContextVar[bool | None] = ContextVar("pellucid_checkpoint_early_stop", default=None)
DEBUG: ContextVar[bool | None] = ContextVar("pellucid_checkpoint_debug", default=None)


@contextmanager
def _set(variable: ContextVar[bool | None], value: bool | None) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def set_checkpoint_early_stop(enable: bool) -> AbstractContextManager[None]:
    """Inside the block, choose whether a recomputation stops once every value is there.

    >>> with set_checkpoint_early_stop(False):
    ...     pass
    """
    return _set(EARLY_STOP, enable)


def set_checkpoint_debug_enabled(enabled: bool | None) -> AbstractContextManager[None]:
    """Inside the block, choose whether a divergence lists every operation of both runs; None: each call decides.

    >>> import pellucid as torch
    >>> from pellucid.utils.checkpoint import checkpoint, set_checkpoint_debug_enabled
    >>> x = torch.tensor(2.0, requires_grad=True)
    >>> with set_checkpoint_debug_enabled(True):
    ...     checkpoint(torch.exp, x, use_reentrant=False).backward()
    >>> x.grad
    tensor(7.3891)
    """
    return _set(DEBUG, enabled)


class CheckpointPolicy(Enum):
    """What a policy says of an operation: keep its result, or compute it again.

    >>> CheckpointPolicy.MUST_SAVE.name
    'MUST_SAVE'
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


@dataclass
class SelectiveCheckpointContext:
    """What a policy is told: which of the two runs this is, and what the operation gave.

    >>> SelectiveCheckpointContext(is_recompute=True).op_output is None
    True
    """

    is_recompute: bool
    op_output: Any = None


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Any, allow_cache_entry_mutation: bool = False
) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """Contexts for `context_fn`: a policy is checked and everything is computed again, so that the numbers are the
    same and a little more time is spent than with values kept.

    >>> import pellucid as torch
    >>> from functools import partial
    >>> from pellucid.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
    >>> x = torch.tensor(2.0, requires_grad=True)
    >>> keep_nothing = partial(create_selective_checkpoint_contexts, [])
    >>> checkpoint(torch.exp, x, use_reentrant=False, context_fn=keep_nothing).backward()
    >>> x.grad
    tensor(7.3891)
    """
    if not isinstance(policy_fn_or_list, list) and not callable(policy_fn_or_list):
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    return noop_context_fn()


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn when no input needs a gradient: the segment would give none.

    >>> import pellucid as torch
    >>> check_backward_validity([torch.ones(1, requires_grad=True)])
    """
    if not any(isinstance(each, Tensor) and each.requires_grad for each in inputs):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)


class DefaultDeviceType:
    """The device that checkpoints without tensors belong to: remembered.

    >>> DefaultDeviceType.get_device_type()
    'cuda'
    """

    _device_type = "cuda"

    @classmethod
    def set_device_type(cls, device: str = "cuda") -> None:
        """Remember a device."""
        cls._device_type = device

    @classmethod
    def get_device_type(cls) -> str:
        """What was remembered."""
        return cls._device_type


def noop_context_fn() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """No context around forward, none around the recomputation.

    >>> import pellucid as torch
    >>> around_forward, around_recomputation = torch.utils.checkpoint.noop_context_fn()
    >>> with around_forward:
    ...     print("nothing changes in here")
    nothing changes in here
    """
    return nullcontext(), nullcontext()


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """The devices that some tensors live on beside the CPU, and the states of their random numbers: none.

    >>> import pellucid as torch
    >>> torch.utils.checkpoint.get_device_states(torch.zeros(2))
    ([], [])
    """
    return [], []


def set_device_states(devices: Sequence[int], states: Sequence[Tensor], *, device_type: str | None = None) -> None:
    """Put back what `get_device_states` found: nothing."""


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """Run `function(*args)` without keeping its activations: backward runs it again.

    Values and gradients are those of the plain call, to the bit. `use_reentrant=None` means False.

    >>> import pellucid as torch
    >>> from pellucid.utils.checkpoint import checkpoint
    >>> x = torch.tensor(2.0, requires_grad=True)
    >>> checkpoint(lambda t: (t * t).exp(), x, use_reentrant=False).backward()
    >>> x.grad
    tensor(218.3926)
    """
    if determinism_check not in ("default", "none"):
        raise ValueError(f"determinism_check should be one of ['default', 'none'], but got {determinism_check}")
    if use_reentrant:
        if context_fn is not noop_context_fn or debug:
            raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
        if kwargs:
            raise ValueError(f"Unexpected keyword arguments: {', '.join(kwargs)}")
        if modes.is_grad_enabled() and not any(map(_requires_grad, args)):
            warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)
        return CheckpointFunction.apply(function, preserve_rng_state, *args)
    segment = Segment(function, args, kwargs, context_fn, determinism_check == "default", debug, early_stop)
    return segment.first_run(preserve_rng_state)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, *, preserve_rng_state: bool = True
) -> Any:
    """Run functions one after another in checkpointed segments; the last one, whose backward comes first, is not.

    >>> import pellucid as torch
    >>> x = torch.tensor(0.5, requires_grad=True)
    >>> checkpoint_sequential([torch.exp, torch.sin, torch.cos], 3, x).backward()
    >>> x.grad
    tensor(0.1078)
    """
    steps = list(functions.children() if hasattr(functions, "children") else functions)
    size = max(len(steps) // segments, 1)
    end = 0
    for start in range(0, min(size * (segments - 1), len(steps) - 1), size):
        end = start + size
        input = checkpoint(
            _chain(steps[start:end]), input, use_reentrant=use_reentrant, preserve_rng_state=preserve_rng_state
        )
    return _chain(steps[end:])(input)


def _requires_grad(value: Any) -> bool:
    return isinstance(value, Tensor) and current_node(value) is not None


def _chain(functions: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    def run(input: Any) -> Any:
        for function in functions:
            input = function(input)
        return input

    return run


# --- what the first run notes


class Note:
    """What is known of a value that was not kept: the operation that wanted it, its shape, its dtype, its line.

    Inside vmap or jvp also the levels it belongs to: a second run has levels of its own.
    """

    __slots__ = ("dtype", "levels", "operation", "place", "shape")

    def __init__(self, tensor: Tensor) -> None:
        node = PACKING.get()
        self.operation = "an argument of a nested checkpoint" if node is None else node.primitive.name
        self.place = here() if node is None else node.place
        self.shape = tuple(tensor.array.shape)
        self.dtype = np.dtype(tensor.array.dtype)
        self.levels = sorted(layers(tensor.array))

    def agrees(self, other: "Note") -> bool:
        same_form = (self.operation, self.shape, self.dtype) == (other.operation, other.shape, other.dtype)
        return same_form and len(self.levels) == len(other.levels)

    def __str__(self) -> str:
        return f"{self.operation} keeps {self.shape} {self.dtype} at {self.place}"


class Enough(BaseException):
    """Ends a recomputation once every value is there; not an Exception, so that no `except` of the user's eats it."""

    def __init__(self, run: "SecondRun") -> None:
        super().__init__()
        self.run = run


class Segment:
    """One checkpointed call: how to run it again, and what it would have kept."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        context_fn: Callable[[], tuple[Any, Any]],
        compare: bool,
        debug: bool,
        early_stop: bool,
    ) -> None:
        self.function, self.compare, self.debug = function, compare, debug
        self.early_stop = early_stop if EARLY_STOP.get() is None else bool(EARLY_STOP.get())
        self.around_first, self.around_again = context_fn()
        self.mode = modes.current()
        self.born = aliasing.tick()
        self.place = here()
        self.args = args
        self.kwargs = kwargs
        self.notes: list[Note] = []
        self.random: Any = None
        self.finished = False  # the first run: a function may call backward before it returns
        self.latest = threading.local()  # each thread that walks back has a second run of its own

    def first_run(self, preserve_rng_state: bool) -> Any:
        """Run the function, a number in the place of everything it would keep."""
        if not self.mode.grad:
            return self.function(*self.args, **self.kwargs)
        self.random = random_state() if preserve_rng_state else None
        args, kwargs = self.args, self.kwargs
        self.args = tuple(put_by(value, self.mode) for value in args)
        self.kwargs = {name: put_by(value, self.mode) for name, value in kwargs.items()}
        hooks = (*self.mode.saved_hooks, (self.put_away, self.bring_back))
        with self.around_first, modes.switched(saved_hooks=hooks):
            returned = self.function(*args, **kwargs)
        self.finished = True
        return returned

    def put_away(self, tensor: Tensor) -> int:
        """A number instead of a value."""
        self.notes.append(Note(tensor))
        return len(self.notes) - 1

    def bring_back(self, index: int) -> Tensor:
        """The value of a number, by running the segment again if it is not there."""
        if index not in self.values:
            again = SecondRun(self)
            again.run()
            self.latest.values = again.values
        return wrap(self.values.pop(index))

    @property
    def values(self) -> dict[int, Any]:
        """The values that were computed again and not used yet."""
        return getattr(self.latest, "values", {})


class SecondRun:
    """The segment run once more: collects the values, and compares each with what the first run noted."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.began = aliasing.tick()
        self.notes: list[Note] = []
        self.values: dict[int, Any] = {}
        self.taken: list[int] = []  # when each value was taken

    def run(self) -> None:
        """Run the function until every value is there."""
        segment = self.segment
        args = [self.argument(value) for value in segment.args]
        kwargs = {name: self.argument(value) for name, value in segment.kwargs.items()}
        mode = replace(segment.mode, grad=True, saved_hooks=((self.collect, same),))
        with segment.around_again, with_random_state(segment.random), installed(mode):
            try:
                segment.function(*args, **kwargs)
            except Enough as enough:
                if enough.run is not self:
                    raise
        if len(self.notes) < len(segment.notes):
            missing = segment.notes[len(self.notes)]
            raise CheckpointError(self.other_number(f"the first that is missing: {missing}"))
        for index, array in self.values.items():
            self.check_unwritten(array, f"a value that {self.notes[index].operation} keeps", self.taken[index])

    def argument(self, value: Any) -> Any:
        """An argument of the first run, for this one."""
        if not isinstance(value, Argument):
            return value
        tensor = value.again()
        self.check_unwritten(tensor.array, "an argument", self.segment.born, self.began)
        return tensor

    def collect(self, tensor: Tensor) -> Tensor:
        """Take one value, if it is what the first run noted."""
        segment, index, note = self.segment, len(self.notes), Note(tensor)
        self.notes.append(note)
        if index >= len(segment.notes):
            if not segment.finished:  # the first run has not come so far, so nobody asks for this value
                self.taken.append(aliasing.tick())
                return tensor
            raise CheckpointError(self.other_number(f"the first that is new: {note}"))
        if segment.compare and not note.agrees(segment.notes[index]):
            raise CheckpointError(self.diverged(index, note))
        self.check_unwritten(tensor.array, f"a value that {note.operation} keeps", segment.born, self.began)
        self.values[index] = moved(tensor.array, dict(zip(note.levels, segment.notes[index].levels, strict=False)))
        self.taken.append(aliasing.tick())
        if segment.early_stop and len(self.notes) == len(segment.notes):
            raise Enough(self)
        return tensor

    def check_unwritten(self, array: Any, what: str, since: int, until: float = inf) -> None:
        """Refuse a value that was overwritten at the wrong time: between the two runs, or after it was taken."""
        writes = [aliasing.write_to(part) for part in memory_of(array)]
        write = next((write for write in writes if write is not None and since < write.tick < until), None)
        if write is not None:
            raise InplaceError(
                explain(
                    f"checkpoint: {what} was overwritten by {write.operation} before backward could use it",
                    f"checkpointed at {self.segment.place}\n         overwritten at {write.place}",
                    "one of the variables needed for gradient computation has been modified by an inplace operation",
                    "use the out-of-place form there, or give checkpoint a clone()",
                )
            )

    def diverged(self, index: int, note: Note) -> str:
        before = self.segment.notes[index]
        return explain(
            "checkpoint: Recomputed values for the following tensors have different metadata than during the forward "
            f"pass: value {index}, {before.operation} then, {note.operation} now",
            f"forward: {before}\n         again:   {note}",
            f"the function checkpointed at {self.segment.place.text} did something else when it was run again",
            self.cure(),
        )

    def other_number(self, where: str) -> str:
        return explain(
            "checkpoint: A different number of tensors was saved during the original forward and recomputation: "
            f"{len(self.segment.notes)} then, {len(self.notes)} now",
            where,
            f"the function checkpointed at {self.segment.place.text} did something else when it was run again",
            self.cure(),
        )

    def cure(self) -> str:
        cure = "make the function depend on its arguments only: no counters, no state that the first run changes"
        if not (self.segment.debug if DEBUG.get() is None else DEBUG.get()):
            return cure
        runs = ["forward:", *map(str, self.segment.notes), "again:", *map(str, self.notes)]
        return cure + "\n         " + "\n         ".join(runs)


class Argument:
    """A tensor that a segment was called with, kept for the second run.

    Inside another checkpoint it is itself put away by that one's hooks, so that nesting keeps only the outermost
    input. Otherwise the tensor's array is kept, and its place in the graph is not needed.
    """

    __slots__ = ("requires_grad", "value")

    def __init__(self, tensor: Tensor, mode: modes.Mode) -> None:
        self.requires_grad = current_node(tensor) is not None
        array = current_array(tensor)
        self.value = packed_value(array, *mode.saved_hooks[-1]) if mode.saved_hooks else array

    def again(self) -> Tensor:
        """The tensor for the second run: a leaf of its own."""
        tensor = wrap(unpacked(self.value))
        return tensor.requires_grad_() if self.requires_grad else tensor  # type: ignore[attr-defined, no-any-return]


def put_by(value: Any, mode: modes.Mode) -> Any:
    """What a segment keeps of an argument."""
    return Argument(value, mode) if isinstance(value, Tensor) else value


@contextmanager
def installed(mode: modes.Mode) -> Iterator[None]:
    """Run a block under exactly this mode."""
    before = modes.MODE.get()
    modes.install(mode)
    try:
        yield
    finally:
        modes.MODE.set(before)


# --- random numbers


def random_state() -> Any:
    """The state of the random number generator, None while there is none."""
    if find_spec("pellucid.random") is None:
        return None
    return import_module("pellucid.random").get_rng_state()


@contextmanager
def with_random_state(state: Any) -> Iterator[None]:
    """Draw the random numbers of the first run again, and then go on where the generator was."""
    if state is None:
        yield
        return
    generator = import_module("pellucid.random")
    before = generator.get_rng_state()
    generator.set_rng_state(state)
    try:
        yield
    finally:
        generator.set_rng_state(before)


# --- the reentrant form


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same tensors as leaves of their own.

    >>> import pellucid as torch
    >>> x = torch.tensor(2.0, requires_grad=True) * 3
    >>> (leaf,) = torch.utils.checkpoint.detach_variable((x,))
    >>> x.is_leaf, leaf.is_leaf, leaf.requires_grad
    (False, True, True)
    """
    return tuple(
        value.detach().requires_grad_(current_node(value) is not None) if isinstance(value, Tensor) else value  # type: ignore[attr-defined]
        for value in inputs
    )


class CheckpointFunction(Function):
    """The older form: a custom function whose backward runs the segment again and calls backward on it.

    `checkpoint(..., use_reentrant=True)` calls it.

    >>> import pellucid as torch
    >>> x = torch.tensor(2.0, requires_grad=True)
    >>> y = torch.utils.checkpoint.checkpoint(torch.exp, x, use_reentrant=True)
    >>> y.grad_fn.name()
    'CheckpointFunctionBackward'
    """

    @staticmethod
    def forward(ctx: FunctionCtx, function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
        ctx.function = function  # type: ignore[attr-defined]
        ctx.random = random_state() if preserve_rng_state else None  # type: ignore[attr-defined]
        ctx.others = [None if isinstance(value, Tensor) else value for value in args]  # type: ignore[attr-defined]
        ctx.save_for_backward(*(value if isinstance(value, Tensor) else None for value in args))
        return function(*args)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> Any:
        if backward.SELECTIVE.get():
            raise RuntimeError(
                explain(
                    "When use_reentrant=True, checkpoint is incompatible with .grad() or passing an `inputs` parameter "
                    "to .backward()",
                    str(here()),
                    "it calls backward inside backward, which fills the .grad of every leaf",
                    "checkpoint(..., use_reentrant=False)",
                )
            )
        given = tuple(t if t is not None else other for t, other in zip(ctx.saved_tensors, ctx.others, strict=True))
        inputs = detach_variable(given)
        with with_random_state(ctx.random), modes.enable_grad():
            returned = ctx.function(*inputs)
        outputs = returned if isinstance(returned, tuple) else (returned,)
        pairs = [(t, g) for t, g in zip(outputs, grads, strict=True) if _requires_grad(t)]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        backward.backward([t for t, _ in pairs], [g for _, g in pairs])
        return (None, None, *(value._grad if isinstance(value, Tensor) else None for value in inputs))
