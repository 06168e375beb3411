"""torch.torch_version: a version that is a string and compares as a version, so that "2.13" is more than "2.2"."""

import re
from collections.abc import Callable
from operator import ge, gt, le, lt
from typing import Any

__all__ = ["TorchVersion"]


def numbers(version: Any) -> tuple[int, ...]:
    """The numbers of a version, given as a string or as a tuple, without zeros at the end.

    >>> numbers("2.13.0+cpu"), numbers((2, 2))
    ((2, 13), (2, 2))
    """
    text = ".".join(map(str, version)) if isinstance(version, (tuple, list)) else str(version)
    found = re.match(r"\d+(\.\d+)*", text)
    if found is None:
        raise ValueError(f"{version!r} is not a version")
    given = [int(number) for number in found[0].split(".")]
    while len(given) > 1 and given[-1] == 0:
        given.pop()
    return tuple(given)


def _compared(name: str, operator: Callable[[Any, Any], bool]) -> Any:
    def method(self: "TorchVersion", other: Any) -> bool:
        return operator(numbers(self), numbers(other))

    method.__name__ = name
    return method


class TorchVersion(str):
    """A version.

    >>> TorchVersion("2.13.0+pellucid") >= "2.2", TorchVersion("2.13.0") > (2, 13)
    (True, False)
    """

    __slots__ = ()
    __ge__, __gt__, __le__, __lt__ = (_compared(f"__{each.__name__}__", each) for each in (ge, gt, le, lt))
