"""Interrupts at chosen places: what a step leaves behind when one falls between any two of its instructions."""

import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import pellucid as torch


class Interrupter:
    """Raises KeyboardInterrupt at the n-th place of a call: before a line of Python, or before an instruction."""

    def __init__(self, at: int, event: str, error: type[BaseException] = KeyboardInterrupt) -> None:
        self.left, self.event, self.error, self.came = at, event, error, False

    def trace(self, frame: Any, event: str, _: Any) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = self.event == "opcode", self.event == "line"
        if event == self.event:
            if not self.left:
                sys.settrace(None)
                self.came = True
                raise self.error
            self.left -= 1
        return self.trace

    def __call__(self, call: Callable[[], Any]) -> bool:
        """Call; tells whether the interrupt came, which it does not when there are fewer places."""
        before = sys.gettrace()
        gc.disable()  # a finalizer of something else would swallow the interrupt
        sys.settrace(self.trace)
        try:
            call()
        except self.error:
            pass
        else:
            assert not self.came, "an interrupt was swallowed"
        finally:
            sys.settrace(before)
            gc.enable()
        return self.came


def bits(value: Any) -> Any:
    """Everything that can be told of a value, tensors by their bytes."""
    if isinstance(value, torch.Tensor):
        array = value.detach().array
        return (str(array.dtype), array.shape, array.tobytes())
    if isinstance(value, np.ndarray):
        return (str(value.dtype), value.shape, value.tobytes())
    if isinstance(value, dict):
        return {key: bits(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [bits(part) for part in value]
    return repr(value)


def everywhere(make: Callable[[], Any], event: str = "line", stride: int = 1, offset: int = 0) -> Iterator[Any]:
    """Interrupted subjects, one for each place: `make()` gives one with `act()`, and `bits()` of what it changes.

    Yields the subject, what it was before, and what it would be after.
    """
    whole = make()
    before = whole.bits()
    whole.act()
    after = whole.bits()
    assert before != after
    at = offset
    while True:
        subject = make()
        assert subject.bits() == before
        came = Interrupter(at, event)(subject.act)
        yield subject, before, after
        if not came:
            return
        at += stride


def torn(make: Callable[[], Any], event: str = "line", stride: int = 1, offset: int = 0) -> tuple[int, int, int]:
    """How many interrupts there were, after how many nothing had happened, and how many left something half done."""
    count = undone = half = 0
    for subject, before, after in everywhere(make, event, stride, offset):
        now = subject.bits()
        count += 1
        undone += now == before
        half += now not in (before, after)
    return count, undone, half
