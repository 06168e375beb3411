"""A few threads that share the work of one kernel: NumPy lets go of the interpreter while it copies and multiplies.

The parts are cut the same way whoever runs them, so the result does not depend on threads, not in the last bit. A
kernel whose parts are short, or that is called while another one has the threads, works through its parts alone.
Handing a part over takes 20 to 100 µs (docs/decisions/0005), so only kernels of half a millisecond and more gain.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any

from pellucid.native import hands

TURN = Lock()  # held by the kernel that has the threads
POOL: ThreadPoolExecutor | None = None


def _forget() -> None:
    """After a fork: threads stay behind in the parent."""
    global POOL, TURN
    POOL, TURN = None, Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


HANDS = hands()
WORTH = 250.0  # microseconds of work for which it pays to wake a thread


def in_parts(function: Callable[[slice], Any], size: int, microseconds: float) -> list[Any]:
    """`function` of each part of `range(size)`, in order; on several threads if it takes long enough.

    >>> in_parts(lambda part: (part.start, part.stop), 4, 1.0)
    [(0, 4)]
    """
    count = min(HANDS, size, int(microseconds / WORTH))
    if count < 2:
        return [function(slice(0, size))]
    parts = [slice(size * i // count, size * (i + 1) // count) for i in range(count)]
    if not TURN.acquire(blocking=False):
        return [function(part) for part in parts]
    try:
        return _together(function, parts)
    finally:
        TURN.release()


def _together(function: Callable[[slice], Any], parts: list[slice]) -> list[Any]:
    """The first part here, the others on the threads; none is left running when this returns."""
    global POOL
    if POOL is None:
        POOL = ThreadPoolExecutor(HANDS - 1, "pellucid-kernel")
    futures = [POOL.submit(function, part) for part in parts[1:]]
    try:
        first = function(parts[0])
    finally:
        for future in futures:
            future.exception()
    return [first, *(future.result() for future in futures)]
