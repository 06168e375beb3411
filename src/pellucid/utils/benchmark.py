"""torch.utils.benchmark: time a statement.

>>> Timer("x + 1", globals={"x": 1}).timeit(10).number_per_run
10
"""

import statistics
import textwrap
import timeit
from dataclasses import dataclass
from importlib import import_module
from typing import Any

__all__ = ["Measurement", "Timer"]


@dataclass
class Measurement:
    """Times of a statement: seconds of runs of `number_per_run` calls each."""

    number_per_run: int
    raw_times: list[float]
    title: str = ""

    @property
    def times(self) -> list[float]:
        """Seconds per call."""
        return [each / self.number_per_run for each in self.raw_times]

    @property
    def mean(self) -> float:
        """The mean in seconds."""
        return statistics.fmean(self.times)

    @property
    def median(self) -> float:
        """The median in seconds."""
        return statistics.median(self.times)

    def __repr__(self) -> str:
        runs = f"{len(self.raw_times)} measurement(s), {self.number_per_run} runs each"
        return f"{self.title}\n  {self.median * 1e6:.2f} us\n  {runs}"


class Timer:
    """A statement to be timed; it may be indented as the program around it is, and knows `torch`.

    >>> Timer('''
    ...     y = x + 1
    ...     z = y * y
    ... ''', globals={"x": 1}).timeit(10).number_per_run
    10
    """

    def __init__(
        self, stmt: str = "pass", setup: str = "pass", global_setup: str = "", timer: Any = timeit.default_timer,
        globals: dict[str, Any] | None = None, label: str | None = None, sub_label: str | None = None,
        description: str | None = None, env: str | None = None, num_threads: int = 1, language: Any = None,
    ) -> None:  # fmt: skip
        stmt, setup = (textwrap.dedent(code).strip() for code in (stmt, setup))
        known = {"torch": import_module("pellucid"), **(globals or {})}
        self._timer = timeit.Timer(stmt, setup or "pass", timer, known)
        self._title = ": ".join(part for part in (label or stmt, sub_label, description) if part)

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """Time a number of calls, after a few to warm up."""
        self._timer.timeit(max(number // 100, 2))
        return Measurement(number, [self._timer.timeit(number)], self._title)

    def blocked_autorange(self, callback: Any = None, min_run_time: float = 0.2) -> Measurement:
        """Time blocks of calls until they have taken `min_run_time` seconds together."""
        number, took = 1, self._timer.timeit(1)
        while took < min_run_time / 1000:
            number *= 10
            took = self._timer.timeit(number)
        times: list[float] = []
        while sum(times) < min_run_time:
            times.append(self._timer.timeit(number))
        return Measurement(number, times, self._title)

    adaptive_autorange = blocked_autorange
