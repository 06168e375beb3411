"""torch.futures: results that come later. Only another thread could set a future that we wait for."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["Future", "collect_all", "wait_all"]


class Future:
    """A value that is set once.

    >>> future = Future()
    >>> later = future.then(lambda done: done.value() + 1)
    >>> future.set_result(1)
    >>> later.wait()
    2
    """

    def __init__(self, *, devices: Any = None) -> None:
        self._result: Any = None
        self._problem: BaseException | None = None
        self._set = threading.Event()
        self._callbacks: list[Callable[[Future], Any]] = []

    def done(self) -> bool:
        """Whether there is a value or an exception."""
        return self._set.is_set()

    def set_result(self, result: Any) -> None:
        """Set the value and call those who wait for it."""
        self._finish(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Set an exception, which `wait` raises."""
        self._finish(None, result)

    def _finish(self, result: Any, problem: BaseException | None) -> None:
        if self.done():
            raise RuntimeError("Future can only be marked completed once")
        self._result, self._problem = result, problem
        self._set.set()
        for callback in self._callbacks:
            callback(self)

    def value(self) -> Any:
        """The value, or its exception."""
        if self._problem is not None:
            raise self._problem
        return self._result

    def wait(self) -> Any:
        """The value, when a thread has set it; refused if there is no other thread that could."""
        if not self.done() and threading.active_count() == 1:
            raise RuntimeError("the future has no value, and nothing runs elsewhere that could set it")
        self._set.wait()
        return self.value()

    def add_done_callback(self, callback: Callable[["Future"], Any]) -> None:
        """Call a function with the future when it is done."""
        if self.done():
            callback(self)
        else:
            self._callbacks.append(callback)

    def then(self, callback: Callable[["Future"], Any]) -> "Future":
        """The future of a function of this one."""
        following = Future()

        def run(future: Future) -> None:
            try:
                following.set_result(callback(future))
            except Exception as problem:
                following.set_exception(problem)

        self.add_done_callback(run)
        return following


def wait_all(futures: Sequence[Future]) -> list[Any]:
    """The values of all."""
    return [future.wait() for future in futures]


def collect_all(futures: Sequence[Future]) -> Future:
    """The future of all of them, done when the last one is."""
    together = Future()

    def look(_: Any) -> None:
        if all(future.done() for future in futures) and not together.done():
            together.set_result(list(futures))

    for future in futures:
        future.add_done_callback(look)
    look(None)
    return together
