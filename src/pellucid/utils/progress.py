"""track: go through an iterable and tell how far it is, how fast, and how long it will take.

On a terminal the line lives (with a bar, when rich is installed); elsewhere a plain line is printed every few seconds.
"""

import sys
import time
from collections.abc import Generator, Iterable
from contextlib import suppress
from typing import Any, Generic, TypeVar

__all__ = ["Track", "track"]

T = TypeVar("T")
SECONDS_BETWEEN_LINES = 5.0  # of plain output
SECONDS_BETWEEN_LOOKS = 0.1  # of a living line


def track(
    iterable: Iterable[T], description: str = "step", total: int | None = None, *, seconds: float | None = None,
    unit: str = "steps", per_step: float = 1,
) -> "Track[T]":  # fmt: skip
    """Go through an iterable and show the progress: which step, what was noted, the rate, the time left.

    `total` is the number of steps, asked of the iterable if not given. After `seconds`, if given, the loop ends early.
    The rate is in `unit`s, of which a step has `per_step`.

    >>> bar = track([3.0, 2.0, 1.0], "epoch")
    >>> for loss in bar:
    ...     bar.note(loss=loss)
    epoch      1   loss 3.000   ... steps/s   ETA 0:00
    epoch      3   loss 1.000   ... steps/s   ETA 0:00
    """
    if total is None:
        with suppress(TypeError):
            total = len(iterable)  # type: ignore[arg-type]
    return Track(iterable, description, total, seconds, unit, per_step)


class Track(Generic[T]):
    """One tracked loop: iterate over it once.

    >>> import pellucid as torch
    >>> bar = torch.utils.progress.track(range(4), "step")
    >>> for i in bar:
    ...     bar.note(loss=1.0 - i / 4)
    ...     if i == 1:
    ...         break
    step      1   loss 1.000   ... steps/s   ETA 0:00
    >>> bar.step, bar.share, bar.notes
    (2, 0.5, {'loss': 0.75})
    """

    def __init__(
        self, iterable: Iterable[T], description: str, total: int | None, seconds: float | None, unit: str,
        per_step: float,
    ) -> None:  # fmt: skip
        self.iterable, self.description, self.total, self.seconds = iterable, description, total, seconds
        self.unit, self.per_step = unit, per_step
        self.step = 0  # the steps begun
        self.notes: dict[str, Any] = {}
        self._began = time.perf_counter()

    def note(self, **values: Any) -> None:
        """What to show beside the step: numbers (also tensors of one element) or text."""
        self.notes.update(values)

    @property
    def elapsed(self) -> float:
        """Seconds since the first step began."""
        return time.perf_counter() - self._began

    @property
    def share(self) -> float:
        """How much is done, from 0 to 1: of the steps or of the seconds, whichever ends first."""
        of_steps = self.step / self.total if self.total else 0.0
        return min(1.0, max(of_steps, self.elapsed / self.seconds if self.seconds else 0.0))

    def __iter__(self) -> Generator[T]:
        screen = _screen(self)
        self._began = time.perf_counter()
        with screen:
            for item in self.iterable:
                self.step += 1
                yield item
                ended = bool(self.seconds) and self.elapsed >= self.seconds  # type: ignore[operator]
                screen.show(ended or self.step == self.total)
                if ended:
                    break
            screen.close()

    def line(self) -> str:
        """The line as it is now.

        >>> bar = track(range(4))
        >>> bar.note(loss=0.25, phase="warm-up")
        >>> bar.line()[:43]
        'step      0   loss 0.250   phase warm-up   '
        """
        noted = [f"{name} {_readable(value)}" for name, value in self.notes.items()]
        rate = self.step * self.per_step / max(self.elapsed, 1e-9)
        speed = f"{rate:>8,.0f} {self.unit}/s" if rate >= 100 else f"{rate:>8.2f} {self.unit}/s"
        left = [f"ETA {_clock(self.elapsed / self.share - self.elapsed)}"] if self.share else []
        return "   ".join([f"{self.description} {self.step:>6,}", *noted, speed, *left])


def _readable(value: Any) -> str:
    if isinstance(value, str) or not hasattr(value, "__float__"):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{float(value):.3f}"


def _clock(seconds: float) -> str:
    """Minutes and seconds, hours where there are some.

    >>> _clock(75), _clock(3675)
    ('1:15', '1:01:15')
    """
    minutes, rest = divmod(round(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


# --- where the line is shown


def _screen(track: Track[Any]) -> "Lines":
    if not sys.stdout.isatty():
        return Lines(track)
    try:
        import rich.progress  # noqa: F401
    except ImportError:
        return Living(track)
    return WithBar(track)


class Lines:
    """Plain lines, one now and then: for files and pipes."""

    pause = SECONDS_BETWEEN_LINES

    def __init__(self, track: Track[Any]) -> None:
        self.track = track
        self.next_look = 0.0
        self.shown = 0  # the step that was shown last

    def show(self, last: bool) -> None:
        """A step has ended."""
        if last or self.track.elapsed >= self.next_look:
            self.next_look = self.track.elapsed + self.pause
            self.shown = self.track.step
            self.write(self.track.line())

    def close(self) -> None:
        """The loop has ended: an iterable without length could not say which step is its last."""
        if self.shown != self.track.step:
            self.show(last=True)

    def write(self, line: str) -> None:
        print(line, flush=True)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


class Living(Lines):
    """One line of a terminal that is written again and again."""

    pause = SECONDS_BETWEEN_LOOKS

    def write(self, line: str) -> None:
        print(f"\r\033[K{line}", end="", flush=True)

    def __exit__(self, *error: object) -> None:
        print()


class WithBar(Lines):
    """The line beside a bar, by rich: what the loop prints appears above it."""

    pause = SECONDS_BETWEEN_LOOKS

    def __enter__(self) -> None:
        from rich.progress import BarColumn, Progress, TextColumn

        self.progress = Progress(BarColumn(20), TextColumn("{task.description}", markup=False))
        self.task = self.progress.add_task("", total=1.0)
        self.progress.start()

    def write(self, line: str) -> None:
        self.progress.update(self.task, description=line, completed=self.track.share)

    def __exit__(self, *error: object) -> None:
        self.progress.stop()
