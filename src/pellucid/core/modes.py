"""The switches the hot path reads: one context variable, None while everything is normal.

`no_grad`, `inference_mode`, anomaly detection, saved-tensor hooks and observers all live in one immutable Mode.
An operation asks once (`MODE.get()`, about 10 ns) and goes its straight way when the answer is None. A context
variable makes every switch local to its thread and to its asyncio task.
"""

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field, replace
from types import CodeType, TracebackType
from typing import Any, ClassVar, TypeVar, cast

from pellucid.core.flags import no_flag
from pellucid.core.provenance import Place, here, warn

Function = TypeVar("Function", bound=Callable[..., Any])


class Region:
    """One run of a no_grad block: which operations in it took values with a graph, as far as it was watched."""

    __slots__ = ("crossings", "entered", "open")

    def __init__(self, entered: Place) -> None:
        self.entered = entered
        self.crossings: list[tuple[str, CodeType, int, int, list[int]]] = []  # see core/departures.py
        self.open = True  # the first few operations are noted, the others run at full speed


@dataclass(frozen=True, slots=True)
class Mode:
    """Everything that may differ from plain recording."""

    frozen: ClassVar[bool] = False  # a Mode may stand in the place of a Cut, see core/tensor.py

    grad: bool = True
    inference: bool = False
    anomaly: bool = False
    check_nan: bool = True  # anomaly mode without value checks only keeps the forward lines
    saved_hooks: tuple[tuple[Callable[..., Any], Callable[..., Any]], ...] = ()
    observers: tuple[Any, ...] = ()
    tracer: Any = None  # the recorder of a capture, see compiler/trace.py
    autocast: Any = None  # chooses the dtype an operation computes in, see amp/autocast.py
    entered: Place | None = None  # the line that switched gradients off
    by: str = ""  # the name of that switch
    region: Region | None = field(default=None, compare=False)  # what happens in that block
    attentive: bool = field(init=False, compare=False)  # more than recording switched off: the hot path cannot act
    listeners: tuple[Any, ...] = field(init=False, compare=False)  # the observers that want to hear of this mode
    tell: Callable[..., None] = field(init=False, compare=False)  # (row, inputs, params, results): lets them hear of it
    log: "Log | None" = field(init=False, compare=False)  # where the hot path may leave a line instead
    only_watched: bool = field(init=False, compare=False)  # without its observers, the hot path could act
    beneath: "Mode | None" = field(init=False, compare=False)  # the same without observers; None: the normal one
    told: bool = field(init=False, compare=False)  # nothing but observers: the hot path acts, and tells them
    _turned: Any = field(init=False, compare=False, repr=False, default=...)  # see `turned`

    def turned(self) -> "Mode | None":
        """The same mode with recording switched the other way, as `MODE` has it; made once, as that takes 10 µs."""
        if self._turned is ...:
            mode = replace(self, grad=not self.grad)
            object.__setattr__(self, "_turned", None if mode == NORMAL else mode)
        return self._turned  # type: ignore[no-any-return]

    @property
    def beyond(self) -> "Mode":
        """The cut that results of later operations inherit: they are no inference tensors themselves."""
        return replace(self, inference=False) if self.inference else self

    def __post_init__(self) -> None:
        """Work out once what operations ask; an observer that is `only_recording` is deaf while gradients are off."""
        put = object.__setattr__
        others = any((self.anomaly, self.saved_hooks, self.tracer is not None, self.autocast is not None))
        listeners, beneath, normal = (), None, False
        if self.observers:
            listeners = tuple(e for e in self.observers if self.grad or not getattr(e, "only_recording", False))
            beneath = replace(self, observers=()) if listeners and not others else None
            normal = beneath is not None and beneath == NORMAL
        put(self, "listeners", listeners)
        put(self, "tell", telling(listeners))
        put(self, "log", getattr(listeners[0], "log", None) if len(listeners) == 1 else None)
        put(self, "attentive", self.grad or others or bool(listeners))
        put(self, "beneath", None if normal else beneath)
        put(self, "told", normal)
        put(self, "only_watched", beneath is not None and (normal or not beneath.attentive))


def telling(listeners: tuple[Any, ...]) -> Callable[..., None]:
    """What tells all listeners of an operation that has just run; a single one is told without a call in between."""
    if len(listeners) == 1:
        return cast(Callable[..., None], listeners[0].operation)

    def tell(row: Any, inputs: Any, params: tuple[Any, ...], results: Any) -> None:
        for listener in listeners:
            listener.operation(row, inputs, params, results)

    return tell


class Log(dict[int, Any]):
    """What an observer that can read later has heard of: by number of birth (row, params, node), or its own notes.

    Where all inputs of an operation are in the log of the only observer, the hot path leaves a line there and does not
    call it: between kernels a call into Python takes 2 µs, a line 0.3. The node must do for the observer: the log keeps
    it alive, and of the results only the last. The line of several results stands at the first and has the numbers of
    all behind the node; the others have None. A log that is full is left alone until its observer has made room.
    """

    __slots__ = ("last",)
    last: Any  # the tensor that was made last


LOGGED = 1 << 14  # lines in a log at most

NORMAL = Mode()
# Levels of forward mode that were entered under inference_mode: views are followed there although nothing is recorded.
MOVED_ANYWAY: ContextVar[frozenset[int]] = ContextVar("pellucid_moved_anyway", default=frozenset())
MODE: ContextVar[Mode | None] = ContextVar("pellucid_mode", default=None)


def current() -> Mode:
    """The mode in force."""
    return MODE.get() or NORMAL


def is_quiet() -> bool:
    """Whether an operation may compute half of itself without a row: nobody is told of each, but a log may be kept."""
    mode = MODE.get()
    return mode is None or mode.log is not None


def install(mode: Mode) -> None:
    """Make a mode the current one; a normal mode is stored as None, which the hot path tests fastest."""
    MODE.set(None if mode == NORMAL else mode)


@contextmanager
def switched(**changes: Any) -> Iterator[Mode]:
    """Run a block under a changed mode and restore the old one, whatever happens inside."""
    before = MODE.get()
    mode = replace(before or NORMAL, **changes)
    install(mode)
    try:
        yield mode
    finally:
        MODE.set(before)


def apart(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function whose changes of the mode end with it, wherever Ctrl-C falls.

    Between the change in `__enter__` and the block that it is for an interrupt finds a `with` that nobody leaves.
    """
    return copy_context().run(function, *args)


class recording:
    """Switch recording on or off around user code that the engine calls: a tenth of the price of `switched`."""

    __slots__ = ("before", "on")

    def __init__(self, on: bool) -> None:
        self.on = on

    def __enter__(self) -> None:
        before = self.before = MODE.get()
        if before is None:
            MODE.set(None if self.on else UNRECORDED)
        elif before.grad != self.on:
            MODE.set(before.turned())

    def __exit__(self, *error: object) -> None:
        MODE.set(self.before)


UNRECORDED = Mode(grad=False)


def is_grad_enabled() -> bool:
    """Tell whether operations are being recorded.

    >>> with no_grad():
    ...     is_grad_enabled()
    False
    """
    mode = MODE.get()
    return mode is None or mode.grad


def is_inference_mode_enabled() -> bool:
    """Tell whether inference mode is on."""
    mode = MODE.get()
    return mode is not None and mode.inference


class _Switch:
    """A mode change usable as context manager and as decorator, also of generators and coroutines."""

    def changes(self) -> dict[str, Any]:
        """The fields of Mode that this switch sets."""
        raise NotImplementedError

    def fresh(self) -> "_Switch":
        """A switch like this one for one more use, so that decorated functions may recurse."""
        return self.__class__()

    def clone(self) -> "_Switch":
        """PyTorch's name for `fresh`."""
        return self.fresh()

    def __enter__(self) -> Any:
        self._before = MODE.get()
        changes = self.changes()
        if changes.get("grad") is False:
            line = here()
            changes.update(entered=line, by=self.__class__.__name__, region=Region(line))
        elif changes.get("grad"):
            changes.update(entered=None, by="", region=None)
        install(replace(self._before or NORMAL, **changes))
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        MODE.set(self._before)

    def __call__(self, function: Function) -> Function:
        if inspect.isclass(function):
            warn(
                "Decorating classes is deprecated: it acts on the constructor only. Decorate the methods instead.",
                FutureWarning,
            )
        if inspect.isgeneratorfunction(function):
            return cast(Function, _wrap_generator(self, function))
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def waiting(*args: Any, **kwargs: Any) -> Any:
                with self.fresh():
                    return await function(*args, **kwargs)

            return waiting  # type: ignore[return-value]

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self.fresh():
                return function(*args, **kwargs)

        return wrapped  # type: ignore[return-value]


def _wrap_generator(switch: _Switch, function: Any) -> Any:
    """The mode holds while the generator runs, not while it is suspended in the caller's hands."""

    @functools.wraps(function)
    def generator(*args: Any, **kwargs: Any) -> Any:
        inner = function(*args, **kwargs)
        resume, value = inner.send, None
        while True:
            try:
                with switch.fresh():
                    produced = resume(value)
            except StopIteration as end:
                return end.value
            try:
                resume, value = inner.send, (yield produced)
            except GeneratorExit:
                with switch.fresh():
                    inner.close()
                raise
            except BaseException as error:
                resume, value = inner.throw, error

    return generator


class no_grad(_Switch):
    """Switch recording off: results carry no graph.

    >>> import pellucid
    >>> x = pellucid.ones(2, requires_grad=True)
    >>> with no_grad():
    ...     (x * 2).requires_grad
    False
    """

    def __new__(cls, function: Any = None) -> Any:
        self = super().__new__(cls)
        return self if function is None else self(function)

    def changes(self) -> dict[str, Any]:
        return {"grad": False}


class enable_grad(no_grad):
    """Switch recording on again inside a `no_grad` block.

    >>> import pellucid as torch
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> with torch.no_grad():
    ...     outside = x * x
    ...     with torch.enable_grad():
    ...         inside = x * x
    >>> outside.requires_grad, inside.requires_grad
    (False, True)
    """

    def changes(self) -> dict[str, Any]:
        return {"grad": True}


class set_grad_enabled(_Switch):
    """Switch recording on or off, at once and until the end of a `with` block if there is one.

    >>> with set_grad_enabled(False):
    ...     is_grad_enabled()
    False
    >>> is_grad_enabled()
    True
    """

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise no_flag("set_grad_enabled", "mode", mode, 1)
        self.mode = mode
        self._outside = MODE.get()
        self.__enter__()

    def changes(self) -> dict[str, Any]:
        return {"grad": self.mode}

    def __enter__(self) -> None:
        super().__enter__()
        self._before = self._outside

    def fresh(self) -> "_Switch":
        return set_grad_enabled(self.mode)

    def __call__(self, function: Function) -> Function:
        MODE.set(self._outside)  # used as a decorator: the switch acts inside the function only
        return super().__call__(function)

    def __repr__(self) -> str:
        return f"torch.autograd.grad_mode.set_grad_enabled(mode={self.mode})"


class inference_mode(_Switch):
    """Switch recording off for good: results can never take part in autograd later.

    >>> import pellucid
    >>> with inference_mode():
    ...     y = pellucid.ones(2) * 2
    >>> y.is_inference()
    True
    """

    def __new__(cls, mode: Any = True) -> Any:
        self = super().__new__(cls)
        if callable(mode):
            self.mode = True
            return self(mode)
        return self

    def __init__(self, mode: Any = True) -> None:
        self.mode = bool(mode)

    def changes(self) -> dict[str, Any]:
        return {"grad": not self.mode, "inference": self.mode}

    def fresh(self) -> "_Switch":
        return inference_mode(self.mode)


class set_multithreading_enabled(contextlib.ContextDecorator):
    """A context, or a decorator, that changes nothing: gradients are computed in the thread that asks for them.

    >>> with set_multithreading_enabled(False):
    ...     is_grad_enabled()
    True
    """

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(self, *error: object) -> None:
        """Nothing to undo."""


class enforce_grad_layout_policy(set_multithreading_enabled):
    """A context, or a decorator, that changes nothing: gradients are laid out as they come.

    >>> with enforce_grad_layout_policy(False):
    ...     is_grad_enabled()
    True
    """


class detect_anomaly(_Switch):
    """Stop at the first NaN or Inf, in forward or backward, and name the line of the operation that made it.

    PyTorch looks for NaN in backward only; this looks for Inf too and watches the forward pass as well.

    >>> import pellucid
    >>> with detect_anomaly():
    ...     try:
    ...         pellucid.tensor([-1.0]).log()
    ...     except RuntimeError as error:
    ...         print(str(error).splitlines()[0])
    log returned NaN at index (0,)
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan

    def changes(self) -> dict[str, Any]:
        return {"anomaly": True, "check_nan": self.check_nan}

    def fresh(self) -> "_Switch":
        return detect_anomaly(self.check_nan)


class set_detect_anomaly(detect_anomaly):
    """Switch anomaly detection on or off, at once and until the end of a `with` block if there is one.

    >>> import pellucid as torch
    >>> with torch.autograd.set_detect_anomaly(True):
    ...     torch.is_anomaly_enabled()
    True
    >>> torch.is_anomaly_enabled()
    False
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.mode = bool(mode)
        super().__init__(check_nan)
        self._outside = MODE.get()
        self.__enter__()

    def changes(self) -> dict[str, Any]:
        return {"anomaly": self.mode, "check_nan": self.check_nan}

    def __enter__(self) -> None:
        super().__enter__()
        self._before = self._outside

    def fresh(self) -> "_Switch":
        return set_detect_anomaly(self.mode, self.check_nan)


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Switch anomaly detection on or off.

    >>> import pellucid as torch
    >>> torch.set_anomaly_enabled(True, False)
    >>> torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
    (True, False)
    >>> torch.set_anomaly_enabled(False)
    """
    set_detect_anomaly(mode, check_nan)


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly detection, when it is on, looks for NaN."""
    return current().check_nan


def is_anomaly_enabled() -> bool:
    """Tell whether anomaly detection is on."""
    mode = MODE.get()
    return mode is not None and mode.anomaly
