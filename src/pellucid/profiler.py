"""torch.profiler: watch the operations of a training loop, in windows if a schedule says so.

>>> import pellucid as torch
>>> with torch.profiler.profile(record_shapes=True) as found:
...     _ = torch.ones(2, 3).exp()
>>> [(event.key, event.count) for event in found.key_averages()]
[('exp', 1)]
"""

import os
from collections.abc import Callable
from enum import Enum
from typing import Any

from pellucid.autograd import profiler as _autograd
from pellucid.autograd.profiler import record_function
from pellucid.library import _registered

__all__ = [
    "ProfilerAction", "ProfilerActivity", "profile", "record_function", "schedule", "supported_activities",
    "tensorboard_trace_handler",
]  # fmt: skip


class ProfilerActivity(Enum):
    """What to watch: the CPU is what there is."""

    CPU = 0
    XPU = 1
    CUDA = 2


class ProfilerAction(Enum):
    """What a schedule says of a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def supported_activities() -> set[ProfilerActivity]:
    """The CPU."""
    return {ProfilerActivity.CPU}


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, **options: Any
) -> Callable[[int], ProfilerAction]:
    """Tell for each step whether to wait, to warm up or to record.

    >>> steps = schedule(wait=1, warmup=1, active=2)
    >>> [steps(i).name for i in range(4)]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE']
    """
    cycle = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        step -= skip_first
        if step < 0 or (repeat > 0 and step >= repeat * cycle):
            return ProfilerAction.NONE
        place = step % cycle
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < cycle - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[Any], None]:
    """A handler that writes each window as a trace into a folder."""

    def handler(found: Any) -> None:
        os.makedirs(dir_name, exist_ok=True)
        name = f"{worker_name or os.getpid()}.{found.step_num}.pt.trace.json"
        found.export_chrome_trace(os.path.join(dir_name, name))

    return handler


def _record_function_enter(name: str, args: str | None = None) -> record_function:
    """Begin a block with a name: what a traced program calls in place of `with record_function(name)`.

    >>> import pellucid as torch
    >>> with torch.profiler.profile() as found:
    ...     handle = torch.ops.profiler._record_function_enter("mine")
    ...     torch.ops.profiler._record_function_exit(handle)
    >>> [event.key for event in found.key_averages()]
    ['mine']
    """
    return record_function(name, args).__enter__()


def _record_function_exit(handle: record_function) -> None:
    """End a block that `_record_function_enter` has begun."""
    handle.__exit__(None, None, None)


for _function in (_record_function_enter, _record_function_exit):
    _registered(f"profiler::{_function.__name__}", _function)


class profile(_autograd.profile):
    """Watch operations; `step()` after each training step moves the schedule on."""

    def __init__(
        self, *, activities: Any = None, schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[Any], None] | None = None, record_shapes: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(record_shapes=record_shapes)
        self._schedule, self._ready = schedule, on_trace_ready
        self.step_num = 0

    def start(self) -> None:
        """Begin to watch."""
        self.__enter__()

    def stop(self) -> None:
        """End it."""
        self.__exit__(None, None, None)

    @property
    def current_action(self) -> ProfilerAction:
        """What the schedule says of the present step."""
        return ProfilerAction.RECORD if self._schedule is None else self._schedule(self.step_num)

    def _note(self, name: str, shapes: list[Any]) -> None:
        if self.current_action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE):
            super()._note(name, shapes)

    def step(self) -> None:
        """A training step has ended; at the end of a window its events are handed over."""
        ended = self.current_action is ProfilerAction.RECORD_AND_SAVE
        if ended and self._ready is not None:
            self._ready(self)
        self.step_num += 1
        if ended and self.current_action is not ProfilerAction.NONE:
            self.function_events = _autograd.EventList()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        if self._schedule is None and self._ready is not None:
            self._ready(self)
