"""Other kinds of array: what sits in a Tensor instead of an ndarray while a function is transformed.

A Dual pushes a tangent along, a Batched array does many at once. The tape does not know about them.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core.primitive import Primitive
from pellucid.core.provenance import here
from pellucid.core.tensor import Node, Operators, Tensor
from pellucid.errors import explain


class Kind(Operators):
    """An array that is not an ndarray: it decides itself what an operation on it means.

    A kind sets `level`, `shape` and `dtype` (an equal but not identical copy of NumPy's, see `foreign`), and
    `apply(primitive, arrays, params)`; of several kinds in one call the one of the highest level acts first.
    """

    __slots__ = ()
    __array_ufunc__ = None  # ndarray * kind asks the kind's own operators

    level: int
    shape: tuple[int, ...]
    dtype: Any
    spreads = False  # whether an ordinary tensor may become of this kind by an in-place operation
    batched = False  # whether it stands for many arrays, so that what is made beside it must have room for as many

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    def apply(self, p: Primitive, arrays: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
        """Run an operation of which this is one of the inputs."""
        raise NotImplementedError

    def layers(self) -> dict[int, "Kind"]:
        """This array and the kinds inside it, by level."""
        raise NotImplementedError

    def admit(self, tensor: Tensor) -> Tensor:
        """Take a tensor with history from outside into this level, by a step that backward can undo."""
        raise NotImplementedError

    def custom(self, function: Any, args: tuple[Any, ...]) -> Any:
        """Run a custom function of which this is one of the inputs: (context, outputs), or None to run its forward."""
        raise NotImplementedError

    def memory(self) -> list[np.ndarray]:
        """The ndarrays that hold its values."""
        raise NotImplementedError

    def read_by(self, g: Any, node: Node) -> list[np.ndarray]:
        """Those of its ndarrays that matter when a node which kept it has a gradient."""
        return self.memory()

    def overwrite(self, value: Any, name: str, note: Callable[[np.ndarray, str], None]) -> None:
        """Write a value into its memory for the in-place operation `name`; `note` each ndarray that was written."""
        raise NotImplementedError

    def bare(self) -> Any:
        """The array without levels in which it does not move."""
        return self

    def with_room(self, value: Any) -> Any:
        """An array of the same memory that also has room for the tangents of a value to be written into it."""
        return self

    def around(self, array: Any) -> Any:
        """An array without this level, of the same memory, with room for the tangent that this value has."""
        return array

    def ways_out(self) -> tuple[Callable[[Tensor], Tensor], ...]:
        """How the tensors outside are found whose memory a tensor of this kind looks at, one function for each."""
        raise NotImplementedError

    def back_in(self, way_out: Primitive, outside: Tensor, inside: Tensor) -> Tensor:
        """A tensor of this level that differs from `inside` in the part that `way_out` takes out of it."""
        raise NotImplementedError

    def repeated(self, array: np.ndarray) -> Any:
        """A new array as often as this one stands for one, in memory of its own."""
        return array

    def detached(self) -> Any:
        """The array without what differentiates it."""
        raise NotImplementedError

    def given(self, values: Any) -> Any:
        """An array of other values that moves as this one does."""
        return values

    def moved(self, levels: Mapping[int, int]) -> "Kind":
        """The same array, of other levels: what a function computed when it was run once more."""
        return self

    def pattern(self) -> np.ndarray:
        """An array that lies in memory as this one does (or one of the many that it stands for)."""
        raise NotImplementedError

    def concrete(self, what: str) -> np.ndarray:
        """The values as an ndarray, for Python code that looks at them; `what` is the operation that does."""
        raise RuntimeError(
            explain(
                f"{what} needs the values of a {type(self).__name__} array, which has none of its own",
                str(here()),
                self.why_no_values(what),
                "use tensor operations instead, e.g. torch.where instead of `if`",
            )
        )

    def why_no_values(self, what: str) -> str:
        """Why Python code cannot look at the values."""
        return "inside a transformed function a tensor stands for many values, or for values not known yet"

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(f"a {type(self).__name__} array has no values of its own to give to NumPy")

    def __array_function__(self, function: Any, *_: Any) -> Any:
        raise TypeError(f"np.{function.__name__} does not take a {type(self).__name__} array")


@lru_cache(maxsize=64)
def foreign(dtype: np.dtype) -> np.dtype:
    """A dtype equal to NumPy's but not the same object, so that the hot path's identity test sends kinds here."""
    return np.dtype(dtype, metadata={"pellucid": "kind"})


def plain(dtype: np.dtype) -> np.dtype:
    """NumPy's own object for a dtype (unpickled arrays and kinds carry copies of it)."""
    return dtypes.from_numpy_dtype(dtype).numpy


def moved(array: Any, levels: Mapping[int, int]) -> Any:
    """An array whose kinds belong to other levels; an ndarray has none."""
    return array.moved(levels) if isinstance(array, Kind) else array


def pattern(array: Any) -> np.ndarray:
    """An array that lies in memory as this one does."""
    return array.pattern() if isinstance(array, Kind) else array


def memory_of(array: Any) -> list[np.ndarray]:
    """The ndarrays in which an array of any kind has its values; none of what is no array."""
    if isinstance(array, np.ndarray):
        return [array]
    return array.memory() if isinstance(array, Kind) else []


def bare(array: Any) -> Any:
    """An array without levels in which it does not move."""
    return array.bare() if isinstance(array, Kind) else array


def with_room(array: Any, value: Any) -> Any:
    """An array of the same memory with room for all that a value carries beside its elements."""
    if not isinstance(value, Kind):
        return array
    if isinstance(array, Kind) and array.level >= value.level:
        return array.with_room(value)
    return value.around(array)


def layers(array: Any) -> dict[int, Kind]:
    """The kinds an array is made of, by level; an ndarray has none."""
    return array.layers() if isinstance(array, Kind) else {}
