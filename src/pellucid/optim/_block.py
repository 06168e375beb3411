"""Block: what one run of an optimizer's kernel works on, as flat arrays of real numbers.

That is a large parameter, or many small ones together, whose state then lies in one array: a kernel makes a dozen
calls into NumPy, and for small arrays the calls are all that costs. The tensors in `optimizer.state` are views of that
memory, so they are always current.

    gradients -> block.gradient (joined, negated, weight decay) -> kernel -> block.add -> parameters
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pellucid.core.aliasing import record_of
from pellucid.core.blas import daxpy, dscal, saxpy, sscal
from pellucid.core.tensor import Tensor, wrap
from pellucid.core.views import current_array

ndarray = np.ndarray
F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
AXPY, SCAL = {F32: saxpy, F64: daxpy}, {F32: sscal, F64: dscal}
REAL: dict[np.dtype, np.dtype] = {np.dtype(np.complex64): F32, np.dtype(np.complex128): F64}


# --- arithmetic in one pass: BLAS takes a quarter of a microsecond where two ufuncs take one, and rounds once


def axpy(a: Any, x: ndarray, y: ndarray) -> None:
    """y ← y + a·x."""
    if type(y) is ndarray and y.size and a:  # BLAS would leave out NaN · 0
        AXPY[y.dtype](x, y, y.size, a)
    else:
        np.add(y, np.multiply(x, a), y)


def scale(a: Any, x: ndarray) -> None:
    """x ← a·x."""
    if type(x) is ndarray and x.size and a:
        SCAL[x.dtype](a, x)
    else:
        np.multiply(x, a, x)


def average(kept: ndarray, value: ndarray, decay: Any) -> None:
    """The running average of values: kept ← decay·kept + (1 − decay)·value."""
    scale(decay, kept)
    axpy(1 - decay, value, kept)


def average_square(kept: ndarray, value: ndarray, decay: Any, scratch: ndarray) -> None:
    """The running average of squares: kept ← decay·kept + (1 − decay)·value²."""
    np.multiply(value, value, scratch)
    average(kept, scratch, decay)


def number(option: Any) -> Any:
    """An option as a number; a tensor stays an array while a capture writes it down."""
    if not isinstance(option, Tensor):
        return option
    array = current_array(option)
    return array.item() if type(array) is ndarray else array.reshape(()).astype(np.float64)


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
        "blas", "buffers", "checks", "counters", "dtype", "fresh", "parameters", "parts", "pool", "size", "slots",
        "staged", "traced", "writes",
    )  # fmt: skip

    def __init__(self, parameters: Sequence[Tensor], states: Sequence[Any], slots: Sequence[str],
                 counters: Sequence[str], pool: Pool) -> None:  # fmt: skip
        arrays = [current_array(p) for p in parameters]
        self.parameters, self.pool, self.fresh = parameters, pool, False
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
        self.dtype = flats[0].dtype
        self.blas = None if self.traced else AXPY[self.dtype]
        self.buffers: dict[int, ndarray] = {}
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
        if len(self.checks) > 1:
            return all(len(set(values.tolist())) == 1 for values in self.counters.values())
        return True

    # --- for the kernel

    def buffer(self, index: int, dtype: np.dtype | None = None) -> ndarray:
        """Scratch memory of the block's size; 0 is the gradient's."""
        found = self.buffers.get(index)
        if found is None:
            dtype = dtype or self.dtype
            if self.traced:
                found = current_array(wrap(np.empty(self.size, dtype)))
            else:
                found = self.pool.take(index, dtype, self.size)
            self.buffers[index] = found
        return found

    def gradient(self, maximize: bool = False, decay: Any = 0) -> ndarray:
        """The gradients in a row, negated to maximize, plus `decay` times the parameters. Not to be written to."""
        g = self._gathered(maximize or decay != 0)
        if maximize:
            np.negative(g, g)
        if decay != 0:
            for flat, size, start in self.parts:
                if self.blas is not None:
                    self.blas(flat, g, size, decay, 0, 1, start)
                else:
                    axpy(decay, flat, g)
        return g

    def _gathered(self, own: bool) -> ndarray:
        """The gradients in a row; `own`: in memory that may be written to."""
        if len(self.parameters) > 1:
            grads = [p._grad.array for p in self.parameters]  # type: ignore[union-attr]
            g = self.buffer(0)
            dtype = grads[0].dtype
            np.concatenate(grads, axis=None, out=g.view(dtype) if dtype in REAL else g, casting="unsafe")
            return g
        array = current_array(self.parameters[0]._grad)  # type: ignore[arg-type]
        if self.traced:
            return array.reshape(-1).copy() if own else array.reshape(-1)
        if own or not array.flags.c_contiguous or array.dtype is not self.dtype:
            g = self.buffer(0)
            target = g.view(array.dtype) if array.dtype in REAL else g
            np.copyto(target.reshape(array.shape), array, casting="unsafe")
            return g
        return array.reshape(-1)

    def add(self, direction: ndarray, factor: Any) -> None:
        """Add a multiple of the kernel's result to the parameters."""
        blas = self.blas
        if blas is not None and factor:
            for flat, size, start in self.parts:
                blas(direction, flat, size, factor, start)
        else:
            for flat, size, start in self.parts:
                axpy(factor, direction[start : start + size], flat)

    def shrink(self, factor: Any) -> None:
        """Multiply the parameters by a number: weight decay apart from the gradient."""
        for flat, _, _ in self.parts:
            scale(factor, flat)

    def begin(self, kept: ndarray, value: ndarray) -> None:
        """Give state its first value."""
        np.copyto(kept, value)

    def advance(self) -> Any:
        """Count the step, and say which one it is."""
        return self.renew("step", lambda step: step + 1)

    def renew(self, name: str, change: Callable[[Any], Any]) -> Any:
        """Change a number that is kept as state, and return it as it is kept: rounded."""
        kept = self.counters[name]
        if self.traced:
            np.copyto(kept, change(kept))
        else:
            kept.fill(change(kept[0]))
        return self.value(name)

    def value(self, name: str) -> Any:
        """A number that is kept as state."""
        kept = self.counters[name]
        return kept.reshape(()).astype(np.float64) if self.traced else kept.item(0)

    def finish(self) -> None:
        """Write back what was worked on in copies."""
        self.fresh = False
        for flat, target in self.staged:
            np.copyto(target, flat.reshape(target.shape), casting="unsafe")


NOTHING: dict[str, Any] = {}  # stands for the state of parameters whose optimizer keeps none
