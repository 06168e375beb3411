"""All or nothing: writes are prepared first, and then run in one call into C.

Python lets a signal's handler raise (Ctrl-C: KeyboardInterrupt) between two instructions of Python, never inside a
function written in C that calls none of Python. So whatever must change together is written down as calls of such
functions, with all that they need worked out, allocated and checked before: what can fail fails before the first write.
"""

import operator
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextvars import Context
from functools import partial
from itertools import starmap
from typing import Any

import numpy as np

Call = tuple[Any, ...]  # a function written in C (a ufunc, BLAS, a kernel, `setitem`, ...) and its arguments
run_all = deque[Any](maxlen=0).extend  # takes all that an iterator yields and keeps nothing, within one call into C

# Numbers, 2.5 KB: memory that the calls may need for themselves, such as the 1 000 bytes of a ufunc's iterator. It is
# asked for before the first of them and given back to the allocator, which then has it (70 ns).
ROOM = 320

# Where NumPy says nothing of overflow and NaN: a warning is Python's, and so is the error that a user makes of it.
# Entering a copy takes 60 ns, `with np.errstate(...)` 900.
QUIET = Context()
QUIET.run(np.seterr, all="ignore")


def together(calls: Iterable[Call]) -> None:
    """Run calls one after the other: all of them, whatever signal comes, or none, where there is no memory left.

    >>> import numpy as np
    >>> total = np.zeros(2)
    >>> together([(np.add, total, 1.0, total), (np.multiply, total, 3.0, total)])
    >>> total
    array([3., 3.])
    """
    np.empty(ROOM)
    quietly(starmap(operator.call, calls))


def quietly(calls: Iterator[Any]) -> None:
    """Let an iterator make all the calls that it has left."""
    QUIET.copy().run(run_all, calls)


def undoing(calls: Iterable[Call]) -> Callable[[], None]:
    """What takes changes back when it is called in `except BaseException:`; prepared now, run whole then.

    >>> import numpy as np
    >>> total = np.zeros(2)
    >>> undo = undoing([(total.fill, 0.0)])
    >>> total += 5
    >>> undo()
    >>> total
    array([0., 0.])
    """
    return partial(QUIET.copy().run, run_all, starmap(operator.call, calls))  # all of it C: nothing comes between
