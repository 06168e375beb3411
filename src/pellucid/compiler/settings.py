"""Settings of PyTorch's compiler that scripts make for a while."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def patching(module: str) -> Callable[..., Any]:
    """The function `patch` of a module of settings: a context, and a decorator, inside which they are others.

    >>> from pellucid._dynamo import config
    >>> with config.patch(cache_size_limit=64):
    ...     config.cache_size_limit
    64
    >>> config.cache_size_limit
    8
    """

    @contextmanager
    def patch(name: Any = None, value: Any = None, **changes: Any) -> Iterator[None]:
        given = name if isinstance(name, dict) else {} if name is None else {name: value}
        settings, changes = vars(sys.modules[module]), {**given, **changes}
        before = {each: settings[each] for each in changes if each in settings}
        settings.update(changes)
        try:
            yield
        finally:
            for each in changes:
                settings.pop(each, None)
            settings.update(before)

    return patch
