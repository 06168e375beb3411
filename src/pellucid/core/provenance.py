"""Where in the user's code something happened: a code object and an offset, turned into text only when asked.

A frame is never kept (it would keep every local variable alive). Reading `f_code` and `f_lasti` costs about
0.15 µs; the line number is worked out when somebody wants to see it.
"""

import linecache
import os
import sys
import warnings
from types import CodeType, FrameType

PACKAGE_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
LIBRARY_FOLDER = os.path.dirname(os.__file__) + os.sep  # Python's own modules, and in it perhaps packages of others

# Source files seen so far, the user's and our own: looking a name up is faster than comparing its beginning.
USERS: set[str] = set()
OURS: set[str] = set()

getframe = sys._getframe


def outside(frame: FrameType) -> FrameType:
    """Step out of Pellucid's own frames, and of copy.deepcopy and its like, to the user's frame that called in."""
    while True:
        name = frame.f_code.co_filename
        if (name not in OURS and (name in USERS or not _is_ours(name))) or frame.f_back is None:
            return frame
        frame = frame.f_back


def _is_ours(name: str) -> bool:
    ours = name.startswith((PACKAGE_FOLDER, "<frozen importlib"))  # an import that we refuse is the user's line
    ours = ours or (name.startswith(LIBRARY_FOLDER) and f"-packages{os.sep}" not in name)
    (OURS if ours else USERS).add(name)
    return ours


class Place:
    """A line of the user's code.

    >>> here().text.endswith(">:1")
    True
    """

    __slots__ = ("code", "lasti")

    def __init__(self, code: CodeType, lasti: int) -> None:
        self.code = code
        self.lasti = lasti

    @property
    def filename(self) -> str:
        return self.code.co_filename

    @property
    def line(self) -> int:
        return line_of(self.code, self.lasti)

    @property
    def text(self) -> str:
        """`file.py:12`, the form that editors and people understand."""
        return f"{self.filename}:{self.line}"

    @property
    def source(self) -> str:
        """The source line itself, stripped; empty when the file cannot be read."""
        return linecache.getline(self.filename, self.line).strip()

    def __str__(self) -> str:
        source = self.source
        return f"{self.text}    {source}" if source else self.text

    def __repr__(self) -> str:
        return f"<Place {self.text}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and (self.filename, self.line) == (other.filename, other.line)

    def __hash__(self) -> int:
        return hash((self.filename, self.line))


def here() -> Place:
    """The user's line that is running now: the first frame outside Pellucid."""
    frame = outside(getframe(1))
    return Place(frame.f_code, frame.f_lasti)


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn of something at the user's line, however deep in Pellucid it was noticed."""
    frame = outside(getframe(1))
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    name = frame.f_globals.get("__name__", "<unknown>")
    warnings.warn_explicit(text, category, frame.f_code.co_filename, frame.f_lineno, name, registry)


def line_of(code: CodeType, lasti: int) -> int:
    """The line number of a bytecode offset.

    >>> line_of((lambda: 1).__code__, 0) > 0
    True
    """
    for start, end, line in code.co_lines():
        if start <= lasti < end and line is not None:
            return line
    return code.co_firstlineno
