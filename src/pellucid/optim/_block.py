"""Block: what one run of an optimizer's kernel works on, as flat arrays of real numbers.

That is a large parameter, or many small ones together, whose state then lies in one array: a kernel makes a dozen
calls into NumPy, and for small arrays the calls are all that costs. The tensors in `optimizer.state` are views of that
memory, so they are always current.

A kernel changes nothing: it writes down the calls that will, and the step runs those of all blocks together
(core/commit.py), so that Ctrl-C finds all parameters and their state before the step, or all of them after it.

    gradients -> block.gradient (joined, negated, weight decay) -> kernel -> block.add -> parameters
"""

from collections.abc import Callable, Sequence
from functools import partial
from operator import setitem
from typing import Any, NoReturn

import numpy as np

from pellucid.core.aliasing import record_of
from pellucid.core.blas import AXPY, F32, F64, FEW, SCAL, axpy_call, longest, scal_call
from pellucid.core.commit import Call
from pellucid.core.provenance import here
from pellucid.core.tensor import Tensor, wrap
from pellucid.core.views import current_array
from pellucid.errors import explain

ndarray = np.ndarray
REAL: dict[np.dtype, np.dtype] = {np.dtype(np.complex64): F32, np.dtype(np.complex128): F64}


joined: Any = getattr(np.concatenate, "__wrapped__", np.concatenate)  # which asks no __array_function__: 0.2 µs less


def number(option: Any) -> Any:
    """An option as a number; a tensor stays an array while a capture writes it down, and a value while recorded."""
    if type(option) is float or type(option) is int:
        return option
    if not isinstance(option, Tensor):
        return option if hasattr(option, "tensor") else float(option)
    array = current_array(option)
    return array.item() if type(array) is ndarray else array.reshape(()).astype(np.float64)


def plain_axpy(a: Any, x: Any, y: Any) -> None:
    """y ← y + a·x, for arrays that are not plain memory."""
    np.add(y, np.multiply(x, a), y)


# --- blocks


class Pool:
    """Scratch memory of one optimizer: every block uses the same, as blocks run one after the other."""

    def __init__(self) -> None:
        self.arrays: dict[tuple[int, np.dtype], ndarray] = {}
        self.largest = 0

    def take(self, index: int, dtype: np.dtype, size: int) -> ndarray:
        """The scratch array of a number, in a size; its values are anybody's."""
        array = self.arrays.get((index, dtype))
        if array is None or array.size < size:
            self.largest = max(self.largest, size)
            array = self.arrays[index, dtype] = np.empty(self.largest, dtype)
        return array[:size]


class Block:
    """Parameters that one run of the kernel updates, with their state, all as flat arrays of real numbers."""

    __slots__ = (
        "blas", "buffers", "calls", "checks", "counters", "dtype", "fresh", "joined", "longest", "parameters", "parts",
        "pool", "scal", "shapes", "short", "size", "slots", "staged", "states", "traced", "wakes", "writes",
    )  # fmt: skip

    calls: list[Call]  # what the step under way will do: the kernel adds to it

    def __init__(self, parameters: Sequence[Tensor], states: Sequence[Any], slots: Sequence[str],
                 counters: Sequence[str], pool: Pool) -> None:  # fmt: skip
        arrays = [current_array(p) for p in parameters]
        self.parameters, self.states, self.pool, self.fresh = parameters, states, pool, False
        self.traced = type(arrays[0]) is not ndarray
        self.staged: list[tuple[ndarray, ndarray]] = []  # what the kernel works on, and where that belongs
        self.slots = tuple(self._joined([state[name] for state in states]) for name in slots)
        self.counters = {name: self._joined([state[name] for state in states], number=True) for name in counters}
        flats = [self._flat(array) for array in arrays]
        self.parts = []  # of every parameter: its elements, how many, and where they are in joined arrays
        self.size = 0
        for flat in flats:
            if flat.size:
                self.parts.append((flat, flat.size, self.size))
            self.size += flat.size
        self.dtype, self.shapes = flats[0].dtype, [array.shape for array in arrays]
        self.blas = None if self.traced else AXPY[self.dtype]
        self.scal = None if self.traced else SCAL[self.dtype]
        sizes, self.longest = [size for _, size, _ in self.parts], longest()
        self.short = max(sizes, default=0) <= self.longest  # SciPy's BLAS takes all parts,
        self.wakes = any(FEW < size <= self.longest for size in (self.size, *sizes))  # and wakes its threads for one
        self.buffers: dict[int, ndarray] = {}
        # Gradients are joined before anything is written, so each block needs a place for them; it is a small one.
        self.joined = np.empty(self.size, self.dtype) if len(parameters) > 1 else None
        written = (*arrays, *self.slots, *(target for _, target in self.staged))
        self.writes = [record_of(array) for array in written]
        self.checks = [
            (p, array, state, [(name, state[name], state[name].array) for name in (*slots, *counters)])
            for p, array, state in zip(parameters, arrays, states, strict=True)
        ]

    def _flat(self, array: ndarray) -> ndarray:
        """The elements of an array in a row, complex ones as pairs: its own memory, or a copy to be written back."""
        dtype, contiguous = array.dtype, array.flags.c_contiguous
        half = dtype.itemsize == 2 and not self.traced
        flat = array.reshape(-1) if contiguous else array.flatten()
        if half:
            flat = flat.astype(F32)
        if half or not contiguous:
            self.staged.append((flat, array))
        return flat.view(REAL[dtype]) if dtype in REAL else flat

    def _joined(self, tensors: Sequence[Tensor], number: bool = False) -> ndarray:
        """The elements of several state tensors in a row; they become views of it."""
        if len(tensors) == 1:
            array = current_array(tensors[0])
            return array.reshape(-1) if number else self._flat(array)
        joined = np.concatenate([tensor.array for tensor in tensors], axis=None)
        start = 0
        for tensor in tensors:
            shape, size = tensor.array.shape, tensor.array.size
            tensor.array = joined[start : start + size].reshape(shape)
            start += size
        return joined if number else self._flat(joined)

    @property
    def lasting(self) -> bool:
        """Whether the block can serve the next step too: it looks at the memory itself, not at copies."""
        return not self.staged and not self.traced

    def is_current(self, states: dict[Any, Any]) -> bool:
        """Whether parameters and state are where they were, all have gradients, and all counters agree."""
        for p, array, state, held in self.checks:
            if p._grad is None or p.array is not array or states.get(p, NOTHING) is not state:
                return False
            for name, tensor, memory in held:
                if state.get(name) is not tensor or tensor.array is not memory:
                    return False
        if self.joined is not None:
            for values in self.counters.values():
                numbers = values.tolist()
                if numbers.count(numbers[0]) != len(numbers):
                    return False
        return True

    def before(self) -> list[Call]:
        """The calls that give parameters and state back the values they have now."""
        arrays = [array for _, array, _, held in self.checks for array in (array, *(memory for _, _, memory in held))]
        return [(setitem, array, ..., array.copy()) for array in arrays if type(array) is ndarray]

    # --- for the kernel: what it reads

    def buffer(self, index: int, dtype: np.dtype | None = None) -> ndarray:
        """Scratch memory of the block's size; 0 is the gradient's."""
        found = self.buffers.get(index)
        if found is None:
            dtype = dtype or self.dtype
            found = self.empty(self.size, dtype) if self.traced else self.pool.take(index, dtype, self.size)
            self.buffers[index] = found
        return found

    def empty(self, shape: Any, dtype: np.dtype) -> ndarray:
        """New memory for this step alone."""
        array = np.empty(shape, dtype)
        return current_array(wrap(array)) if self.traced else array

    def gradient(self, maximize: bool = False, decay: Any = 0) -> ndarray:
        """The gradients in a row, negated to maximize, plus `decay` times the parameters. Not to be written to."""
        g = self._gathered(maximize or decay != 0)
        if maximize:
            self.calls.append((np.negative, g, g))
        if decay != 0:
            blas = self.blas
            for flat, size, start in self.parts:
                if blas is not None and self.short:
                    self.calls.append((blas, flat, g, size, decay, 0, 1, start))
                else:
                    self.axpy(decay, flat, g if len(self.parts) == 1 else g[start : start + size])
        return g

    def _gathered(self, own: bool) -> ndarray:
        """The gradients in a row; `own`: in memory that may be written to."""
        if self.joined is not None:
            g = self.joined
            grads = [p._grad.array for p in self.parameters]  # type: ignore[union-attr]
            if [grad.shape for grad in grads] != self.shapes:
                self._refuse(grads)
            dtype = grads[0].dtype
            joined(grads, None, g.view(dtype) if dtype in REAL else g, casting="unsafe")
            return g
        array = self._only_gradient()
        if self.traced:
            return array.reshape(-1).copy() if own else array.reshape(-1)
        if own or not array.flags.c_contiguous or array.dtype is not self.dtype:
            g = self.buffer(0)
            target = g.view(array.dtype) if array.dtype in REAL else g
            self.calls.append((setitem, target.reshape(array.shape), ..., array))
            return g
        return array.reshape(-1)

    def _only_gradient(self) -> ndarray:
        """The gradient of a block's only parameter."""
        array = current_array(self.parameters[0]._grad)  # type: ignore[arg-type]
        if array.shape != self.shapes[0]:
            self._refuse([array])
        return array

    def _refuse(self, grads: list[ndarray]) -> NoReturn:
        """An error that tells of the first gradient that does not fit its parameter."""
        pairs = zip(grads, self.shapes, strict=True)
        given, wanted = next((tuple(grad.shape), tuple(shape)) for grad, shape in pairs if grad.shape != shape)
        raise RuntimeError(
            explain(
                f"the gradient has shape {given}, its parameter has shape {wanted}",
                str(here()),
                "one of them was given another shape since backward, by way of `.data`",
                "zero_grad(), and backward() again",
            )
        )

    def gradient_at_once(self) -> ndarray:
        """The gradient of a block's only parameter in its shape, for a kernel that computes with it itself."""
        return self._only_gradient().astype(self.dtype, copy=False)

    def value(self, name: str) -> Any:
        """A number that is kept as state, as it is before the step."""
        kept = self.counters[name]
        return kept.reshape(()).astype(np.float64) if self.traced else kept.item(0)

    # --- for the kernel: what the step will do

    def axpy(self, a: Any, x: ndarray, y: ndarray) -> None:
        """y ← y + a·x. BLAS takes a quarter of a microsecond where two ufuncs take one, and rounds once."""
        if self.blas is None:
            self.calls.append((plain_axpy, a, x, y))
        elif a and y.size:  # BLAS would leave out NaN · 0
            size = y.size
            self.calls.append((self.blas, x, y, size, a) if size <= self.longest else axpy_call(a, x, y))
        else:
            product = self.empty(y.shape, y.dtype)
            self.calls += [(np.multiply, x, a, product), (np.add, y, product, y)]

    def scale(self, a: Any, x: ndarray) -> None:
        """x ← a·x."""
        if self.blas is not None and x.size and a:
            self.calls.append((self.scal, a, x) if x.size <= self.longest else scal_call(a, x))
        else:
            self.calls.append((np.multiply, x, a, x))

    def average(self, kept: ndarray, value: ndarray, decay: Any) -> None:
        """The running average of values: kept ← decay·kept + (1 − decay)·value."""
        self.scale(decay, kept)
        self.axpy(1 - decay, value, kept)

    def average_square(self, kept: ndarray, value: ndarray, decay: Any, scratch: ndarray) -> None:
        """The running average of squares: kept ← decay·kept + (1 − decay)·value²."""
        self.calls.append((np.multiply, value, value, scratch))
        self.average(kept, scratch, decay)

    def largest(self, kept: ndarray, value: Any) -> None:
        """kept ← the larger of both, element by element."""
        self.calls.append((partial(np.maximum, out=kept), kept, value))  # which takes `out` by its name only

    def smallest(self, kept: ndarray, value: Any) -> None:
        """kept ← the smaller of both, element by element."""
        self.calls.append((partial(np.minimum, out=kept), kept, value))

    def copy(self, target: ndarray, value: Any, where: Any = ...) -> None:
        """Write a value into an array, perhaps only where a mask is true."""
        self.calls.append((setitem, target, where, value))

    def add(self, direction: ndarray, factor: Any) -> None:
        """Add a multiple of the kernel's result to the parameters."""
        blas = self.blas
        if blas is not None and factor and self.short:
            calls = self.calls
            for flat, size, start in self.parts:
                calls.append((blas, direction, flat, size, factor, start))
        else:
            for flat, size, start in self.parts:
                self.axpy(factor, direction[start : start + size], flat)

    def shrink(self, factor: Any) -> None:
        """Multiply the parameters by a number: weight decay apart from the gradient."""
        for flat, _, _ in self.parts:
            self.scale(factor, flat)

    def begin(self, kept: ndarray, value: ndarray) -> None:
        """Give state its first value."""
        self.copy(kept, value)

    def advance(self) -> Any:
        """Count the step, and say which one it is."""
        if self.traced:
            return self.renew("step", lambda step: step + 1)
        kept = self.counters["step"]
        step = kept.item(0) + 1
        self.calls.append((kept.fill, step))
        return step

    def renew(self, name: str, change: Callable[[Any], Any]) -> Any:
        """Change a number that is kept as state, and return it as it will be kept: rounded."""
        kept = self.counters[name]
        if self.traced:
            new = change(kept).astype(kept.dtype)
            self.copy(kept, new)
            return new.reshape(()).astype(np.float64)
        rounded = kept.dtype.type(change(kept[0])).item()
        self.calls.append((kept.fill, rounded))
        return rounded

    def finish(self) -> None:
        """Write back what was worked on in copies; state that is new is so no longer."""
        for flat, target in self.staged:
            self.copy(target, flat.reshape(target.shape))
        if self.fresh:
            self.calls.append((setattr, self, "fresh", False))


NOTHING: dict[str, Any] = {}  # stands for the state of parameters whose optimizer keeps none
