"""Which operations a block ran, how often, and how much time passed in each.

The time of an operation is what passed since the one before it ended, so it includes the Python code between them.

>>> import pellucid as torch
>>> with torch.autograd.profiler.profile() as found:
...     _ = torch.ones(2, 2) @ torch.ones(2, 2)
>>> [event.key for event in found.key_averages()]
['mm']
"""

import json
from collections.abc import Iterator
from contextlib import ContextDecorator
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

from pellucid.core import modes

__all__ = ["EventList", "FunctionEvent", "emit_nvtx", "profile", "record_function"]


@dataclass
class FunctionEvent:
    """One operation, or all operations of one name; times in microseconds."""

    key: str
    start: float = 0.0
    cpu_time_total: float = 0.0
    count: int = 1
    input_shapes: list[Any] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.key

    @property
    def cpu_time(self) -> float:
        """The mean of one call."""
        return self.cpu_time_total / self.count

    @property
    def self_cpu_time_total(self) -> float:
        return self.cpu_time_total

    @property
    def cuda_time_total(self) -> float:
        return 0.0

    device_time_total = self_cuda_time_total = self_device_time_total = cuda_time_total


class EventList(list[FunctionEvent]):
    """Events that print as a table."""

    def table(self, sort_by: str | None = None, row_limit: int = 100, header: str | None = None, **options: Any) -> str:
        """Name, share, total time, mean time and number of calls; the largest first when `sort_by` names a column."""
        field_of = {"count": "count", "cpu_time": "cpu_time"}.get(sort_by or "", "cpu_time_total")
        events = sorted(self, key=lambda event: -getattr(event, field_of)) if sort_by else list(self)
        whole = sum(event.cpu_time_total for event in self) or 1.0
        lines = [] if header is None else [header]
        lines.append(f"{'Name':<40}{'CPU %':>8}{'CPU total':>14}{'CPU time avg':>14}{'# of Calls':>12}")
        for event in events[: None if row_limit < 0 else row_limit]:
            share, total, mean = event.cpu_time_total / whole, event.cpu_time_total, event.cpu_time
            lines.append(f"{event.key[:39]:<40}{share:>8.1%}{total:>12.1f}us{mean:>12.1f}us{event.count:>12}")
        return "\n".join([*lines, f"CPU time total: {whole / 1000:.3f}ms"])

    def __str__(self) -> str:
        return self.table()

    def total_average(self) -> FunctionEvent:
        """All events as one."""
        return FunctionEvent("Total", 0.0, sum(e.cpu_time_total for e in self), sum(e.count for e in self) or 1)

    def export_chrome_trace(self, path: str) -> None:
        """Write the events in the form that chrome://tracing and Perfetto read."""
        events = [
            {"name": e.key, "ph": "X", "ts": e.start, "dur": e.cpu_time_total, "pid": 0, "tid": 0} for e in self
        ]  # fmt: skip
        with open(path, "w") as file:
            json.dump({"traceEvents": events}, file)


class profile(ContextDecorator):
    """Watch the operations of a block."""

    def __init__(
        self, enabled: bool = True, *, use_cuda: bool = False, use_device: Any = None, record_shapes: bool = False,
        **options: Any,
    ) -> None:  # fmt: skip
        self.enabled, self.record_shapes = enabled, record_shapes
        self.function_events = EventList()
        self._last = self._began = 0.0
        self._before: Any = None

    def __enter__(self) -> "profile":
        self._before = modes.MODE.get()
        if self.enabled:
            mode = modes.current()
            modes.install(replace(mode, observers=(*mode.observers, self)))
        self._began = self._last = perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        modes.MODE.set(self._before)

    def operation(self, p: Any, tensors: Any, params: Any, outs: Any) -> None:
        """An operation has run (asked by the engine)."""
        shapes = [tuple(getattr(each, "shape", ())) for each in tensors] if self.record_shapes else []
        self._note(p.name, shapes)

    def write(self, target: Any, name: str) -> None:
        """A tensor was written in place (asked by the engine)."""
        self._note(name, [])

    def backward(self, *args: Any) -> None:
        """A backward pass has ended (asked by the engine)."""
        self._note("backward", [])

    def _note(self, name: str, shapes: list[Any]) -> None:
        now = perf_counter()
        passed = (now - self._last) * 1e6
        self.function_events.append(FunctionEvent(name, (self._last - self._began) * 1e6, passed, 1, shapes))
        self._last = perf_counter()

    def events(self) -> EventList:
        """All operations in their order."""
        return self.function_events

    def __iter__(self) -> Iterator[FunctionEvent]:
        return iter(self.function_events)

    def key_averages(self, group_by_input_shape: bool = False, **options: Any) -> EventList:
        """One event per name (and shapes, if asked for)."""
        found: dict[Any, FunctionEvent] = {}
        for event in self.function_events:
            key = (event.key, str(event.input_shapes) if group_by_input_shape else "")
            if key in found:
                found[key].count += 1
                found[key].cpu_time_total += event.cpu_time_total
            else:
                found[key] = replace(event)
        return EventList(found.values())

    def __str__(self) -> str:
        return str(self.function_events)

    def table(self, *args: Any, **kwargs: Any) -> str:
        """The table of all operations by name."""
        return self.key_averages().table(*args, **kwargs)

    def total_average(self) -> FunctionEvent:
        """All operations as one."""
        return self.function_events.total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all operations."""
        return self.total_average().cpu_time_total

    def export_chrome_trace(self, path: str) -> None:
        """Write all operations in the form that chrome://tracing reads."""
        self.function_events.export_chrome_trace(path)


class record_function(ContextDecorator):
    """Give a block a name in the profile that watches it: an event with the whole time of the block."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self._began: list[float] = []

    def __enter__(self) -> "record_function":
        self._began.append(perf_counter())
        return self

    def __exit__(self, *error: object) -> None:
        began = self._began.pop()
        passed = (perf_counter() - began) * 1e6
        for observer in modes.current().observers:
            if isinstance(observer, profile):
                event = FunctionEvent(self.name, (began - observer._began) * 1e6, passed)
                observer.function_events.append(event)


class emit_nvtx(ContextDecorator):
    """Nothing: there is no CUDA to mark for."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __enter__(self) -> "emit_nvtx":
        return self

    def __exit__(self, *error: object) -> None:
        pass


emit_itt = emit_nvtx
