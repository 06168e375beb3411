"""The parts of a program: values, instructions, where values come from and what becomes of them."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.compiler.trees import leaves, mapped
from pellucid.core.primitive import Primitive
from pellucid.core.provenance import Place
from pellucid.core.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Ref:
    """A value of the program, where it stands among the arguments of an instruction."""

    number: int

    def __repr__(self) -> str:
        return f"v{self.number}"


@dataclass(frozen=True, slots=True)
class Value:
    """What is known about a value before the program runs."""

    number: int
    shape: tuple[int, ...]
    dtype: np.dtype

    def fits(self, array: Any) -> bool:
        """Whether an array is of this shape and dtype."""
        return tuple(array.shape) == self.shape and array.dtype == self.dtype

    def __str__(self) -> str:
        return describe(self.shape, self.dtype)


def describe(shape: Sequence[int], dtype: np.dtype) -> str:
    """A shape and a dtype in PyTorch's words.

    >>> describe((2, 3), np.dtype("float32"))
    '(2, 3) float32'
    """
    try:
        name = str(dtypes.from_numpy_dtype(dtype)).removeprefix("torch.")
    except TypeError:
        name = str(dtype)
    return f"{tuple(shape)} {name}"


@dataclass(frozen=True, slots=True, eq=False)
class Instruction:
    """One call of a kernel: `outputs = op(*args, **kwargs)`; the arguments hold a Ref where an array goes."""

    op: str  # the name of a row, or of a NumPy function
    kernel: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: tuple[Value, ...]  # none: it writes into an old value
    several: bool  # the kernel returns a tuple
    place: Place  # the user's line; of a backward instruction, the line whose derivative it computes
    phase: str
    primitive: Primitive | None = None
    writes: Ref | None = None

    @property
    def inputs(self) -> tuple[int, ...]:
        """The numbers of the values it takes."""
        return tuple(leaf.number for _, leaf in leaves((self.args, self.kwargs)) if isinstance(leaf, Ref))

    @property
    def params(self) -> tuple[Any, ...]:
        """The arguments that are not values of the program."""
        return tuple(arg for arg in self.args if not any(isinstance(leaf, Ref) for _, leaf in leaves(arg)))

    def run(self, values: dict[int, Any]) -> tuple[Any, ...]:
        """Call the kernel on arrays and return what it made."""
        given = (self.args, self.kwargs)
        args, kwargs = mapped(lambda leaf: values[leaf.number] if isinstance(leaf, Ref) else leaf, given)
        made = self.kernel(*args, **kwargs)
        if not self.outputs:
            return ()
        return tuple(np.asarray(part) for part in (made if self.several else (made,)))

    def __str__(self) -> str:
        return self.text(self.op, Table())

    def text(self, name: str, table: "Table") -> str:
        """The instruction as a line of Python."""
        arguments = [table.text(arg) for arg in self.args]
        arguments += [f"{key}={table.text(value)}" for key, value in self.kwargs.items()]
        call = f"{name}({', '.join(arguments)})"
        names = ", ".join(f"v{value.number}" for value in self.outputs)
        return f"{names}{',' if self.several and len(self.outputs) == 1 else ''} = {call}" if names else call


Owner = Tensor | int  # a tensor from outside, or the number of an argument


@dataclass(frozen=True, slots=True, eq=False)
class Input:
    """A tensor among the arguments."""

    value: Value
    name: str
    example: np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """A tensor from outside, or the `.grad` of one: read when the program is called."""

    value: Value
    name: str
    owner: Owner
    slot: str  # array or grad


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """An array that the function made itself; one that it also wrote to starts anew at every call."""

    value: Value
    array: np.ndarray
    written: bool

    def fresh(self) -> np.ndarray:
        """The array to begin a call with."""
        return self.array.copy(order="K") if self.written else self.array

    def shown(self) -> str:
        """The values, or that they change."""
        return "a copy to write to" if self.written else short(self.array)


@dataclass(frozen=True, slots=True, eq=False)
class Effect:
    """A field of a tensor that the program sets: `.grad`, or the array itself."""

    name: str
    owner: Owner
    slot: str
    value: Ref | None


@dataclass(frozen=True, slots=True)
class Same:
    """An output that is one of the tensors the program was given or refers to."""

    owner: Owner


@dataclass(frozen=True, slots=True)
class ValueUse:
    """A place where Python code looked at a value: what it does there is fixed in the program."""

    what: str
    place: Place

    def __iter__(self) -> Iterator[Any]:
        return iter((self.what, self.place))

    def __str__(self) -> str:
        return f"{self.what} at {self.place}"


class Table:
    """Text for the arguments of instructions; what has no text of its own gets a number in `objects`."""

    def __init__(self) -> None:
        self.objects: list[Any] = []

    def text(self, value: Any) -> str:
        """Python source that means this value.

        >>> Table().text((Ref(3), slice(None, 2), 1.5, np.dtype("float32")))
        "(v3, slice(None, 2, None), 1.5, np.dtype('float32'))"
        """
        if value is None or value is Ellipsis or type(value) in (bool, int, str, Ref):
            return repr(value)
        if type(value) is float and math.isfinite(value):
            return repr(value)
        if type(value) is tuple:
            return f"({', '.join(map(self.text, value))}{',' if len(value) == 1 else ''})"
        if type(value) is list:
            return f"[{', '.join(map(self.text, value))}]"
        if type(value) is dict:
            return f"{{{', '.join(f'{self.text(k)}: {self.text(v)}' for k, v in value.items())}}}"
        if type(value) is slice:
            return f"slice({self.text(value.start)}, {self.text(value.stop)}, {self.text(value.step)})"
        if isinstance(value, np.dtype) and value.isbuiltin == 1:
            return f"np.dtype({value.name!r})"
        return self._entry(value)

    def _entry(self, value: Any) -> str:
        number = next((i for i, known in enumerate(self.objects) if known is value), len(self.objects))
        if number == len(self.objects):
            self.objects.append(value)
        return f"table[{number}]"


class Shown(Table):
    """The same for people: numbers stand where they are used, and what has no text is shown by its own words."""

    def __init__(self, numbers: dict[int, str]) -> None:
        super().__init__()
        self.numbers = numbers

    def text(self, value: Any) -> str:
        return self.numbers.get(value.number, repr(value)) if type(value) is Ref else super().text(value)

    def _entry(self, value: Any) -> str:
        if isinstance(value, Primitive):
            return value.name
        return value.__qualname__.split(".")[0].strip("_") if callable(value) else repr(value)


def short(value: Any) -> str:
    """A value in no more than forty letters."""
    text = " ".join(repr(value).split()) if not isinstance(value, np.ndarray) else " ".join(str(value).split())
    return text if len(text) <= 40 else f"{text[:37]}..."
