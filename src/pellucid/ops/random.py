"""Random tensors: PyTorch's CPU streams, bit for bit (see streams.py for the numbers themselves).

Every function draws a flat array and lays it out in the order of memory, as PyTorch does, so that a transposed
tensor gets the same numbers in the same places.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from operator import index
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core import modes
from pellucid.core.provenance import warn
from pellucid.core.tensor import Tensor
from pellucid.ops import streams
from pellucid.ops.arguments import refusal
from pellucid.ops.create import beside, check_room, chosen, like, made, one_size, shape_from, weightless
from pellucid.ops.streams import Generator, default_generator

Fill = Callable[[Generator, int, np.dtype, bool], np.ndarray]  # (generator, n, dtype, contiguous) -> n numbers


# --- the state of the default generator


def manual_seed(seed: int) -> Generator:
    """Start the stream that belongs to a seed, the same one as in PyTorch.

    >>> import pellucid as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.rand(2)
    tensor([0.4963, 0.7682])
    """
    return default_generator.manual_seed(int(seed))


def seed() -> int:
    """Start a stream nobody can foresee, and return its seed.

    >>> import pellucid as torch
    >>> torch.seed() == torch.initial_seed()
    True
    """
    return default_generator.seed()


def initial_seed() -> int:
    """The seed that the default generator began with.

    >>> import pellucid as torch
    >>> torch.manual_seed(7).initial_seed(), torch.initial_seed()
    (7, 7)
    """
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """The state of the default generator as bytes, in PyTorch's own layout.

    >>> import pellucid as torch
    >>> torch.get_rng_state().shape
    torch.Size([5056])
    """
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Continue from a state that `get_rng_state` gave, here or in PyTorch.

    >>> import pellucid as torch
    >>> state = torch.get_rng_state()
    >>> first = torch.rand(3)
    >>> torch.set_rng_state(state)
    >>> bool((torch.rand(3) == first).all())
    True
    """
    default_generator.set_state(new_state)


@contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, **options: Any) -> Iterator[None]:
    """Run a block and leave the state of the default generator as it was before.

    >>> import pellucid as torch
    >>> _ = torch.manual_seed(0)
    >>> with torch.random.fork_rng():
    ...     _ = torch.rand(100)
    >>> torch.rand(1)
    tensor([0.4963])
    """
    if not enabled:
        yield
        return
    state = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(state)


NO_DRAWS: ContextVar[bool] = ContextVar("no draws", default=False)  # set where vmap was not told how to draw


def source_of(generator: Any) -> Generator:
    """The generator to draw from: the one given, or the default one."""
    if NO_DRAWS.get():
        raise refusal(
            RuntimeError, "vmap: called random operation while in randomness error mode",
            "whether all examples get the same numbers or each its own is not said",
            "vmap(..., randomness='same') or 'different'; or draw outside",
        )  # fmt: skip
    if generator is None:
        return default_generator
    if not isinstance(generator, Generator):
        raise TypeError(f"argument 'generator' must be torch.Generator, not {type(generator).__name__}")
    return generator


# --- from flat numbers to arrays


def fill_array(array: np.ndarray, fill: Fill, generator: Any) -> None:
    """Write random numbers into an array in the order in which its elements lie in memory."""
    tracer = modes.current().tracer
    if tracer is not None:  # a captured program draws anew at every call
        return tracer.draw(fill_array, array, fill, generator)  # type: ignore[no-any-return]
    if array.dtype.kind == "c":
        array = array if array.ndim else array.reshape(1)  # a view in other units needs a dimension
        parts = array.view(np.dtype(f"f{array.dtype.itemsize // 2}")) if array.flags.c_contiguous else None
        if parts is None:
            packed = np.empty(array.shape, array.dtype)
            fill_array(packed, fill, generator)
            array[...] = packed
            return
        array = parts
    contiguous = array.flags.c_contiguous
    numbers = fill(source_of(generator), array.size, array.dtype, contiguous)
    if array.dtype.itemsize == 2 and numbers.dtype == np.float64:
        numbers = numbers.astype(np.float32)  # PyTorch's way from double to half goes through float: two roundings
    if contiguous:
        array[...] = numbers.reshape(array.shape)
        return
    order = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
    part = array.transpose(order)
    part[...] = numbers.reshape(part.shape)


def uniform_numbers(low: float = 0.0, high: float = 1.0) -> Fill:
    """Uniform numbers in [low, high)."""
    return lambda generator, n, kind, contiguous: streams.uniform(generator, n, low, high, kind)


def normal_numbers(mean: float = 0.0, std: float = 1.0) -> Fill:
    """Normal numbers of a mean and a standard deviation."""
    return lambda generator, n, kind, contiguous: streams.normal(generator, n, mean, std, kind, contiguous)


def integer_numbers(low: int, high: int, wide: bool | None = None) -> Fill:
    """Integers from low up to but without high."""
    return lambda generator, n, kind, contiguous: streams.integers(generator, n, low, high, wide)


HALF_POWER = 1 / math.sqrt(2)  # the standard deviation of each part of a complex number


def _normal_for(kind: np.dtype) -> Fill:
    return normal_numbers(0.0, HALF_POWER) if kind.kind == "c" else normal_numbers()


def check_real(kernel: str, kind: np.dtype) -> None:
    """Refuse dtypes of integers and truth values, which a continuous distribution has no numbers for."""
    if kind.kind in "biu":
        name = dtypes.scalar_name(dtypes.from_numpy_dtype(kind))
        raise refusal(
            NotImplementedError, f"\"{kernel}\" not implemented for '{name}'", try_="use a floating point dtype"
        )


# --- creation


def _random(name: str, kernel: str, fill_for: Callable[[np.dtype], Fill], doc: str) -> Callable[..., Tensor]:
    """`rand` or `randn`: the same arguments, other numbers."""

    def create(
        *size: Any, generator: Generator | None = None, out: Tensor | None = None, dtype: Any = None,
        layout: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False, **named: Any,
    ) -> Tensor:  # fmt: skip
        shape = one_size(name, named.pop("size")) if "size" in named and not size else shape_from(name, size)
        named.pop("names", None)
        if named:
            raise TypeError(f"{name}() got an unexpected keyword argument '{next(iter(named))}'")
        dtypes.check_device(device)
        kind = chosen(dtype, out)
        check_real(kernel, kind)
        light = check_room(name, shape, kind, device) and out is None
        array = weightless(shape, kind) if light else np.empty(shape, kind)
        if not dtypes.on_meta(device):
            fill_array(array, fill_for(kind), generator)
        return made(array, requires_grad, out, name, device=device)

    create.__name__ = create.__qualname__ = name
    create.__doc__ = doc
    return create


rand = _random(
    "rand",
    "check_uniform_bounds",
    lambda kind: uniform_numbers(),
    """Uniform random numbers in [0, 1).

    >>> import pellucid as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.rand(3)
    tensor([0.4963, 0.7682, 0.0885])
    """,
)
randn = _random(
    "randn",
    "normal_kernel_cpu",
    _normal_for,
    """Normal random numbers of mean 0 and standard deviation 1.

    >>> import pellucid as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.randn(3)
    tensor([ 1.5410, -0.2934, -2.1788])
    """,
)


def _random_like(name: str, kernel: str, fill_for: Callable[[np.dtype], Fill], doc: str) -> Callable[..., Tensor]:
    def create(
        input: Any, *, generator: Generator | None = None, dtype: Any = None, layout: Any = None, device: Any = None,
        requires_grad: bool = False, memory_format: Any = None, pin_memory: bool = False,
    ) -> Tensor:  # fmt: skip
        array = like(name, np.empty, input, dtype, device, memory_format)
        check_real(kernel, array.dtype)
        place = beside(input, device)
        if not dtypes.on_meta(place):
            fill_array(array, fill_for(array.dtype), generator)
        return made(array, requires_grad, device=place)

    create.__name__ = create.__qualname__ = name
    create.__doc__ = doc
    return create


rand_like = _random_like(
    "rand_like",
    "check_uniform_bounds",
    lambda kind: uniform_numbers(),
    """Uniform random numbers in the shape and dtype of another tensor.

    >>> import pellucid as torch
    >>> torch.rand_like(torch.ones(2, 3)).shape
    torch.Size([2, 3])
    """,
)
randn_like = _random_like(
    "randn_like",
    "normal_kernel_cpu",
    _normal_for,
    """Normal random numbers in the shape and dtype of another tensor.

    >>> import pellucid as torch
    >>> torch.randn_like(torch.ones(2, 3)).shape
    torch.Size([2, 3])
    """,
)


def check_integers(low: Any, high: Any, kind: np.dtype) -> tuple[int, int]:
    """The bounds of random integers, refused when there is nothing between them or the dtype does not hold them."""
    for value in (low, high):
        if not isinstance(value, (int, np.integer, Tensor)) or isinstance(value, bool):
            raise TypeError(f"randint(): argument 'high' must be int, not {type(value).__name__}")
    low, high = index(low), index(high)
    if not (-(2**63) <= low < 2**63 and high < 2**63):
        raise refusal(ValueError, "randint: Overflow when unpacking long long")
    if low >= high:
        text = f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"
        raise refusal(RuntimeError, text)
    _check_held(low, high - 1, kind)
    if kind.kind not in "biu":
        low, high = _lowest(low, kind), _highest(high, kind)
        if low >= high:
            raise refusal(RuntimeError, f"random_ expects 'from' casted to dtype to be less than 'to', but got {low}")
    return low, high


def integers_from(low: Any, kind: np.dtype) -> Fill:
    """Integers from low up to the largest that the dtype holds."""
    low = index(low)
    if low == -(2**63):  # as PyTorch has it: all bits, whatever the dtype
        return integer_numbers(0, 2**64)
    largest = largest_integer(kind)
    _check_held(low, largest, kind)
    if kind.kind not in "biu":
        low = _lowest(low, kind)
        if low >= largest:
            raise refusal(RuntimeError, f"random_ expects 'from' to be less than {largest}, but got {low}")
    return integer_numbers(low, largest + 1)


def largest_integer(kind: np.dtype) -> int:
    """The largest integer that a dtype holds (of a float: before it leaves some out)."""
    if kind.kind == "b":
        return 1
    return int(np.iinfo(kind).max) if kind.kind in "iu" else 2 ** digits_of(kind)


def digits_of(kind: np.dtype) -> int:
    """How many binary digits a float holds: up to that power of two it leaves out no integer."""
    return 8 if kind == dtypes.bfloat16.numpy else int(np.finfo(kind).nmant) + 1


def _check_held(first: int, last: int, kind: np.dtype) -> None:
    """Refuse bounds beyond a dtype's numbers; warn of floats that leave integers out between them."""
    name = dtypes.from_numpy_dtype(kind)
    if kind.kind == "b":
        limits = 0, 1
    elif kind.kind in "iu":
        limits = int(np.iinfo(kind).min), int(np.iinfo(kind).max)
    else:
        limits = int(dtypes.finfo(name).min), int(dtypes.finfo(name).max)
    for label, value in (("from", first), ("to - 1", last)):
        if not limits[0] <= value <= limits[1]:
            raise refusal(RuntimeError, f"{label} is out of bounds for {name}: {value}")
        if kind.kind not in "biu" and abs(value) > largest_integer(kind):
            warn(f"{label} = {value} is out of bounds: beyond {largest_integer(kind)} {name} leaves out integers")


def _lowest(low: int, kind: np.dtype) -> int:
    """The lower bound; where rounding to a float carries the next integer below it, one that is inside."""
    after = _rounded(low + 1, kind)
    return after + _gap(low + 1, kind) if after < low else low


def _highest(high: int, kind: np.dtype) -> int:
    """The upper bound; where rounding to a float carries the integer before up to it, one that is inside."""
    before = _rounded(high - 1, kind)
    return before - _gap(high - 1, kind) if before >= high else high


def _rounded(value: int, kind: np.dtype) -> int:
    return int(np.array(value, np.float64).astype(kind).astype(np.float64))


def _gap(value: int, kind: np.dtype) -> int:
    """The distance between the floats around an integer that they leave out."""
    return 1 << (value.bit_length() - digits_of(kind))


def randint(
    *bounds: Any, low: int = 0, high: int | None = None, size: Any = None, generator: Generator | None = None,
    out: Tensor | None = None, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Random integers from low (0) up to but without high: randint(high, size) or randint(low, high, size).

    >>> import pellucid as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.randint(10, (5,))
    tensor([4, 9, 3, 0, 3])
    """
    given = list(bounds)
    if size is None:
        if not given:
            raise TypeError('randint() missing 1 required positional arguments: "size"')
        size = given.pop()
    if len(given) == 2:
        low, high = given
    elif len(given) == 1:
        low, high = (low, given[0]) if high is None else (given[0], high)
    shape = one_size("randint", size)
    dtypes.check_device(device)
    kind = chosen(dtype, out, dtypes.int64.numpy)
    low, high = check_integers(low, high, kind)
    light = check_room("randint", shape, kind, device) and out is None
    array = weightless(shape, kind) if light else np.empty(shape, kind)
    if not dtypes.on_meta(device):
        fill_array(array, integer_numbers(low, high), generator)
    return made(array, requires_grad, out, "randint", device=device)


def randint_like(
    input: Any, *bounds: Any, low: int = 0, high: int | None = None, generator: Generator | None = None,
    dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """Random integers in the shape and dtype of another tensor.

    >>> import pellucid as torch
    >>> torch.randint_like(torch.ones(3), 1, 2)
    tensor([1., 1., 1.])
    """
    array = like("randint_like", np.empty, input, dtype, device, memory_format)
    if len(bounds) == 2:
        low, high = bounds
    elif bounds:
        low, high = (low, bounds[0]) if high is None else (bounds[0], high)
    low, high = check_integers(low, high, array.dtype)
    place = beside(input, device)
    if not dtypes.on_meta(place):
        fill_array(array, integer_numbers(low, high), generator)
    return made(array, requires_grad, device=place)


def randperm(
    n: int, *, generator: Generator | None = None, out: Tensor | None = None, dtype: Any = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """The integers 0..n-1 in random order.

    >>> import pellucid as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.randperm(5)
    tensor([4, 0, 1, 3, 2])
    """
    count = index(n)
    if count < 0:
        raise refusal(RuntimeError, f"randperm: n must be non-negative, got {count}")
    dtypes.check_device(device)
    kind = chosen(dtype, out, dtypes.int64.numpy)
    if kind.kind in "iu" and count - 1 > np.iinfo(kind).max:
        name = dtypes.from_numpy_dtype(kind)
        raise refusal(RuntimeError, f"randperm: value cannot be converted to type {name} without overflow")
    check_room("randperm", (count,), np.dtype(np.int64))
    if dtypes.on_meta(device):
        return made(np.empty(count, kind), requires_grad, out, "randperm", device=device)
    return made(streams.permutation(source_of(generator), count).astype(kind), requires_grad, out, "randperm")


__all__ = [
    "Generator", "default_generator", "get_rng_state", "initial_seed", "manual_seed", "rand", "rand_like", "randint",
    "randint_like", "randn", "randn_like", "randperm", "seed", "set_rng_state",
]  # fmt: skip
