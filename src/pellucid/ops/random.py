"""Random tensors: PyTorch's CPU streams, bit for bit (see streams.py for the numbers themselves).

Every function draws a flat array and lays it out in the order of memory, as PyTorch does, so that a transposed
tensor gets the same numbers in the same places. Arguments are checked before anything is drawn: a refused call leaves
the generator and the tensor as they were.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import index
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core import aliasing, modes
from pellucid.core.attributes import attribute, concrete
from pellucid.core.careful import Kind, current_node, plain
from pellucid.core.inplace import check_writable, overwrite
from pellucid.core.primitive import general
from pellucid.core.provenance import here
from pellucid.core.record import bind
from pellucid.core.tensor import Tensor, wrap
from pellucid.errors import explain
from pellucid.ops import streams
from pellucid.ops.create import check_room, chosen, like, made, marked, one_size, sizes_of
from pellucid.ops.operation import call, operation
from pellucid.ops.shape import zeros_like_row
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


def _source(generator: Any) -> Generator:
    if generator is None:
        return default_generator
    if not isinstance(generator, Generator):
        raise TypeError(f"argument 'generator' must be torch.Generator, not {type(generator).__name__}")
    return generator


# --- from flat numbers to arrays


def _fill_array(array: np.ndarray, fill: Fill, generator: Any) -> None:
    """Write random numbers into an array in the order in which its elements lie in memory."""
    tracer = modes.current().tracer
    if tracer is not None:  # a captured program draws anew at every call
        return tracer.draw(_fill_array, array, fill, generator)  # type: ignore[no-any-return]
    if array.dtype.kind == "c":
        parts = array.view(np.dtype(f"f{array.dtype.itemsize // 2}")) if array.flags.c_contiguous else None
        if parts is None:
            packed = np.empty(array.shape, array.dtype)
            _fill_array(packed, fill, generator)
            array[...] = packed
            return
        array = parts
    contiguous = array.flags.c_contiguous
    numbers = fill(_source(generator), array.size, array.dtype, contiguous)
    if array.dtype.itemsize == 2 and numbers.dtype == np.float64:
        numbers = numbers.astype(np.float32)  # PyTorch's way from double to half goes through float: two roundings
    if contiguous:
        array[...] = numbers.reshape(array.shape)
        return
    order = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
    part = array.transpose(order)
    part[...] = numbers.reshape(part.shape)


def _uniform(low: float = 0.0, high: float = 1.0) -> Fill:
    return lambda generator, n, kind, contiguous: streams.uniform(generator, n, low, high, kind)


def _normal(mean: float = 0.0, std: float = 1.0) -> Fill:
    return lambda generator, n, kind, contiguous: streams.normal(generator, n, mean, std, kind, contiguous)


def _integers(low: int, high: int, wide: bool | None = None) -> Fill:
    return lambda generator, n, kind, contiguous: streams.integers(generator, n, low, high, wide)


HALF_POWER = 1 / math.sqrt(2)  # the standard deviation of each part of a complex number


def _normal_for(kind: np.dtype) -> Fill:
    return _normal(0.0, HALF_POWER) if kind.kind == "c" else _normal()


def _check_real(kernel: str, kind: np.dtype) -> None:
    if kind.kind in "biu":
        name = dtypes.from_numpy_dtype(kind)
        raise NotImplementedError(
            explain(f"\"{kernel}\" not implemented for '{name}'", str(here()), try_="use a floating point dtype")
        )


# --- creation


def _random(name: str, kernel: str, fill_for: Callable[[np.dtype], Fill], doc: str) -> Callable[..., Tensor]:
    """`rand` or `randn`: the same arguments, other numbers."""

    def create(
        *size: Any, generator: Generator | None = None, out: Tensor | None = None, dtype: Any = None,
        layout: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False, **named: Any,
    ) -> Tensor:  # fmt: skip
        shape = one_size(name, named.pop("size")) if "size" in named and not size else sizes_of(name, size)
        named.pop("names", None)
        if named:
            raise TypeError(f"{name}() got an unexpected keyword argument '{next(iter(named))}'")
        dtypes.check_device(device)
        kind = chosen(dtype, out)
        _check_real(kernel, kind)
        check_room(name, shape, kind)
        array = np.empty(shape, kind)
        _fill_array(array, fill_for(kind), generator)
        return made(array, requires_grad, out, name)

    create.__name__ = create.__qualname__ = name
    create.__doc__ = doc
    return create


rand = _random(
    "rand",
    "check_uniform_bounds",
    lambda kind: _uniform(),
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
        _check_real(kernel, array.dtype)
        _fill_array(array, fill_for(array.dtype), generator)
        return made(array, requires_grad)

    create.__name__ = create.__qualname__ = name
    create.__doc__ = doc
    return create


rand_like = _random_like(
    "rand_like",
    "check_uniform_bounds",
    lambda kind: _uniform(),
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


def _check_integers(low: Any, high: Any, kind: np.dtype) -> tuple[int, int]:
    """The bounds of random integers, refused when there is nothing between them or the dtype does not hold them."""
    for value in (low, high):
        if not isinstance(value, (int, np.integer, Tensor)) or isinstance(value, bool):
            raise TypeError(f"randint(): argument 'high' must be int, not {type(value).__name__}")
    low, high = index(low), index(high)
    if not (-(2**63) <= low < 2**63 and high < 2**63):
        raise ValueError(explain("randint: Overflow when unpacking long long", str(here())))
    if low >= high:
        text = f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"
        raise RuntimeError(explain(text, str(here())))
    limits = (0, 1) if kind.kind == "b" else (np.iinfo(kind).min, np.iinfo(kind).max) if kind.kind in "iu" else None
    if limits is not None:
        for label, value in (("from", low), ("to - 1", high - 1)):
            if not limits[0] <= value <= limits[1]:
                name = dtypes.from_numpy_dtype(kind)
                raise RuntimeError(explain(f"{label} is out of bounds for {name}: {value}", str(here())))
    return low, high


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
    low, high = _check_integers(low, high, kind)
    check_room("randint", shape, kind)
    array = np.empty(shape, kind)
    _fill_array(array, _integers(low, high), generator)
    return made(array, requires_grad, out, "randint")


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
    low, high = _check_integers(low, high, array.dtype)
    _fill_array(array, _integers(low, high), generator)
    return made(array, requires_grad)


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
        raise RuntimeError(explain(f"randperm: n must be non-negative, got {count}", str(here())))
    dtypes.check_device(device)
    kind = chosen(dtype, out, dtypes.int64.numpy)
    if kind.kind in "iu" and count - 1 > np.iinfo(kind).max:
        name = dtypes.from_numpy_dtype(kind)
        raise RuntimeError(explain(f"randperm: value cannot be converted to type {name} without overflow", str(here())))
    check_room("randperm", (count,), np.dtype(np.int64))
    return made(streams.permutation(_source(generator), count).astype(kind), requires_grad, out, "randperm")


def _check_std(std: float) -> None:
    if not std >= 0:
        raise RuntimeError(explain(f"normal expects std >= 0.0, but found std {std:g}", str(here())))


def normal(
    mean: Any, std: Any = 1.0, size: Any = None, *, generator: Generator | None = None, out: Tensor | None = None,
    dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Normal random numbers; mean and standard deviation are numbers (then give a size) or tensors.

    >>> import pellucid as torch
    >>> torch.normal(torch.tensor([1.0, 2.0]), 0.0)
    tensor([1., 2.])
    """
    if not isinstance(mean, Tensor) and not isinstance(std, Tensor):
        _check_std(std)
        kind = chosen(dtype, out)
        _check_real("normal_kernel_cpu", kind)
        shape = one_size("normal", size)
        check_room("normal", shape, kind)
        array = np.empty(shape, kind)
        _fill_array(array, _normal(float(mean), float(std)), generator)
        return made(array, requires_grad, out, "normal")
    array = _normal_of_tensors(mean, std, generator)
    return marked(made(array, requires_grad, out, "normal"), (mean, std), "normal")


def _normal_of_tensors(mean: Any, std: Any, generator: Any) -> np.ndarray:
    """Noise of deviation std (a number) or 1, then scaled by a tensor std, then moved by mean."""
    means, deviations = (concrete(v, "normal()") if isinstance(v, Tensor) else v for v in (mean, std))
    if isinstance(deviations, np.ndarray):
        if deviations.size and not deviations.min() >= 0:
            raise RuntimeError(explain("normal expects all elements of std >= 0.0", str(here())))
    else:
        _check_std(deviations)
    kind = plain((means if isinstance(means, np.ndarray) else deviations).dtype)
    _check_real("normal_kernel_cpu", kind)
    try:
        array = np.empty(np.broadcast_shapes(np.shape(means), np.shape(deviations)), kind)
    except ValueError:
        shapes = f"{np.shape(means)} and {np.shape(deviations)}"
        raise RuntimeError(explain(f"normal: shapes {shapes} must match: they do not broadcast", str(here()))) from None
    scale = 1.0 if isinstance(deviations, np.ndarray) else float(deviations)
    _fill_array(array, _normal(0.0, scale), generator)
    if isinstance(deviations, np.ndarray):
        array *= deviations.astype(kind, copy=False)
    array += means.astype(kind, copy=False) if isinstance(means, np.ndarray) else kind.type(means)
    return array


def bernoulli(input: Any, p: Any = None, *, generator: Generator | None = None, out: Tensor | None = None) -> Tensor:
    """Ones and zeros: each element is the probability of a one (or all are `p`).

    >>> import pellucid as torch
    >>> torch.bernoulli(torch.tensor([0.0, 1.0]))
    tensor([0., 1.])
    """
    if p is not None:
        result = made(like("bernoulli", np.empty, input))
        return bernoulli_(result, p, generator=generator)
    _check_real("bernoulli_tensor_cpu_p_", plain(input.array.dtype))
    chances = concrete(input, "bernoulli()")
    array = np.empty(chances.shape, plain(chances.dtype))
    _fill_array(array, _bernoulli_of(chances, array), generator)
    return marked(made(array, False, out, "bernoulli"), (input,), "bernoulli")


def _bernoulli_of(p: np.ndarray, target: np.ndarray) -> Fill:
    """Ones with the probability of each element, compared in the order of the target's memory."""
    if p.size and not (p.min() >= 0 and p.max() <= 1):
        text = "bernoulli: Expected p_in >= 0 && p_in <= 1 to be true, but got false."
        raise RuntimeError(explain(text, str(here()), f"the probabilities reach from {p.min()} to {p.max()}"))
    order = sorted(range(target.ndim), key=lambda axis: -abs(target.strides[axis]))
    flat = np.broadcast_to(p, target.shape).transpose(order).reshape(-1)
    return lambda generator, n, kind, contiguous: generator.uniform(n, p.dtype) < flat


def _check_chance(name: str, p: float) -> None:
    if not 0 <= p <= 1:
        raise RuntimeError(explain(f"{name} expects p to be in [0, 1], but got p={p:g}", str(here())))


def multinomial(
    input: Any, num_samples: int, replacement: bool = False, *, generator: Generator | None = None,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Random indices, each drawn with the weight that the input gives it; per row of a matrix.

    >>> import pellucid as torch
    >>> torch.multinomial(torch.tensor([0.0, 0.0, 1.0]), 2, replacement=True)
    tensor([2, 2])
    """
    weights = concrete(input, "multinomial()")
    _check_weights(weights, num_samples, replacement)
    rows = weights.reshape(-1, weights.shape[-1])
    draw = _with_replacement if replacement else _without_replacement
    drawn = draw(rows, num_samples, _source(generator))
    result = made(drawn.reshape(*weights.shape[:-1], num_samples), False, out, "multinomial")
    return marked(result, (input,), "multinomial")


def _check_weights(weights: np.ndarray, count: int, replacement: bool) -> None:
    kind = dtypes.from_numpy_dtype(weights.dtype)
    last = weights.shape[-1] if weights.ndim else 0
    bad = None
    if not 1 <= weights.ndim <= 2:
        bad = "prob_dist must be 1 or 2 dim"
    elif not kind.is_floating_point:
        bad = f"multinomial only supports floating-point dtypes for input, got: {kind}"
    elif count <= 0:
        bad = "cannot sample n_sample <= 0 samples"
    elif not replacement and count > last:
        bad = "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
    elif not bool(((weights >= 0) & (weights < np.inf)).all()):
        bad = "probability tensor contains either `inf`, `nan` or element < 0"
    elif not bool((weights.sum(axis=-1) > 0).all()):
        bad = "invalid multinomial distribution (sum of probabilities <= 0)"
    if bad is not None:
        raise RuntimeError(explain(f"multinomial: {bad}", str(here())))


def _without_replacement(rows: np.ndarray, count: int, generator: Generator) -> np.ndarray:
    """The largest of weight over exponential noise: an exponential race, whose winners come in order."""
    noise = streams.exponential(generator, rows.size, 1.0).reshape(rows.shape).astype(rows.dtype)
    with np.errstate(divide="ignore"):
        race = rows / noise
    return np.argsort(-race, axis=-1, kind="stable")[:, :count].astype(np.int64)


def _with_replacement(rows: np.ndarray, count: int, generator: Generator) -> np.ndarray:
    """Where uniform numbers fall among the running sums of the weights."""
    result = np.empty((len(rows), count), np.int64)
    for row, target in zip(rows, result, strict=True):
        sums = np.add.accumulate(row)
        sums = sums / sums[-1]
        sums[-1] = 1
        target[...] = np.searchsorted(sums.astype(np.float64), generator.uniform(count, streams.F64))
    return result


# --- in place


def _zero(tangents: Any, y: Any, inputs: Any, params: Any) -> Any:
    return zeros_like_row(tangents[0])


def _replaced_row(name: str) -> Any:
    """A tensor whose values were replaced by random ones: nothing of it depends on the old ones any more."""
    return bind(general(name, lambda a, values: values, lambda g, values: zeros_like_row(g), jvp=_zero))


REPLACED = {
    name: _replaced_row(name)
    for name in ("normal", "uniform", "bernoulli", "exponential", "random", "geometric", "cauchy", "log_normal")
}


def _refill(target: Tensor, name: str, fill: Fill, generator: Any) -> Tensor:
    """Write random numbers into a tensor."""
    _source(generator)
    check_writable(target, f"{name}_")
    array = target.array
    recording = modes.is_grad_enabled() and current_node(target) is not None
    if isinstance(array, Kind) or recording:
        values = np.empty(array.shape, plain(array.dtype)) if isinstance(array, Kind) else np.empty_like(array)
        _fill_array(values, fill, generator)
        return overwrite(target, REPLACED[name](target, values) if recording else wrap(values), f"{name}_")
    _fill_array(array, fill, generator)
    aliasing.note_write(array, f"{name}_")
    return target


@attribute
def normal_(self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with normal random numbers.

    >>> import pellucid as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.zeros(3).normal_(10, 0.5)
    tensor([10.7705,  9.8533,  8.9106])
    """
    _check_real("normal_kernel_cpu", plain(self.array.dtype))
    _check_std(std)
    scale = float(std) * HALF_POWER if np.dtype(self.array.dtype).kind == "c" else float(std)
    return _refill(self, "normal", _normal(float(mean), scale), generator)


@attribute
def uniform_(self: Tensor, *bounds: float, generator: Generator | None = None, **named: float) -> Tensor:
    """Fill with uniform random numbers in [from, to).

    >>> import pellucid as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.zeros(3).uniform_(-1, 1)
    tensor([-0.0075,  0.5364, -0.8230])
    """
    low, high = _two_bounds("uniform_", bounds, named, 0.0, 1.0)
    _check_real("check_uniform_bounds", plain(self.array.dtype))
    if not low <= high:
        text = f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}"
        raise RuntimeError(explain(text, str(here())))
    return _refill(self, "uniform", _uniform(float(low), float(high)), generator)


def _two_bounds(name: str, bounds: Any, named: dict[str, Any], low: Any, high: Any) -> tuple[Any, Any]:
    """`from` is a word of Python's, so it can only come by position or out of a dictionary of keywords."""
    low = bounds[0] if bounds else named.pop("from", low)
    high = bounds[1] if len(bounds) > 1 else named.pop("to", high)
    named.pop("from_", None)
    if named or len(bounds) > 2:
        raise TypeError(f"{name}() takes from, to and generator")
    return low, high


@attribute
def random_(self: Tensor, *bounds: Any, generator: Generator | None = None, **named: Any) -> Tensor:
    """Fill with random integers: random_(), random_(to) or random_(from, to).

    >>> import pellucid as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.zeros(3).random_(1, 7)
    tensor([3., 4., 6.])
    """
    if len(bounds) == 1 and not named:
        bounds = (0, *bounds)
    low, high = _two_bounds("random_", bounds, named, 0, None)
    kind = plain(self.array.dtype)
    if high is None:
        return _refill(self, "random", _whole_range(kind), generator)
    low, high = _check_integers(low, high, kind)
    return _refill(self, "random", _integers(low, high), generator)


LARGEST = {"f2": 2**11, "f4": 2**24, "f8": 2**53}  # up to here floats hold every integer


def _whole_range(kind: np.dtype) -> Fill:
    """Integers from 0 to the largest the dtype holds (or to the largest before floats leave some out)."""
    if kind.kind == "b":
        return _integers(0, 2)
    if kind.kind in "iu":
        largest = int(np.iinfo(kind).max)
    else:
        largest = 2**8 if kind == dtypes.bfloat16.numpy else LARGEST[f"f{kind.itemsize}"]
    return _integers(0, largest + 1, wide=kind.itemsize == 8)


@attribute
def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Fill with ones of probability p (a number or a tensor) and zeros.

    >>> import pellucid as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.zeros(5).bernoulli_(0.5)
    tensor([0., 0., 1., 0., 0.])
    """
    if isinstance(p, Tensor):
        chances = concrete(p, "bernoulli_()")
        _check_real("bernoulli_tensor_cpu_p_", plain(chances.dtype))
        return _refill(self, "bernoulli", _bernoulli_of(chances, self.array), generator)
    _check_chance("bernoulli_", p)
    return _refill(self, "bernoulli", _coins(float(p)), generator)


def _coins(p: float) -> Fill:
    return lambda generator, n, kind, contiguous: generator.uniform(n, streams.F64) < p


@attribute
def exponential_(self: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with exponential random numbers of rate lambd.

    >>> import pellucid as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.zeros(3).exponential_()
    tensor([3.5083, 1.2304, 0.6150])
    """
    kind = dtypes.from_numpy_dtype(plain(self.array.dtype))
    if not kind.is_floating_point:
        text = "Exponential distribution is a continuous probability distribution. dtype must be a floating point"
        raise RuntimeError(explain(f"exponential_: {text} but you specified {kind}", str(here())))
    if not lambd > 0:
        raise RuntimeError(explain(f"exponential_ expects lambda > 0.0, but found lambda={lambd:g}", str(here())))
    rate = float(lambd)
    return _refill(self, "exponential", lambda g, n, kind, contiguous: streams.exponential(g, n, rate), generator)


@attribute
def geometric_(self: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Fill with the number of trials up to the first success, of probability p each.

    >>> import pellucid as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.zeros(5).geometric_(0.5)
    tensor([1., 1., 2., 1., 1.])
    """
    if not 0 < p < 1:
        raise RuntimeError(explain(f"geometric_ expects p to be in (0, 1), but got p={p:g}", str(here())))
    scale = math.log1p(-p)

    def fill(g: Generator, n: int, kind: np.dtype, contiguous: bool) -> np.ndarray:
        u = g.uniform(n, streams.F64)
        return np.ceil(streams.each(math.log, np.where(u == 0, 2.0**-53, u)) / scale)

    return _refill(self, "geometric", fill, generator)


@attribute
def cauchy_(self: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with random numbers of the Cauchy distribution.

    >>> import pellucid as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.zeros(3).cauchy_()
    tensor([10.5977,  0.7648, -0.1283])
    """
    _check_real("cauchy_", plain(self.array.dtype))
    if not sigma > 0:
        raise RuntimeError(explain(f"cauchy_ expects sigma > 0.0, but found sigma={sigma:g}", str(here())))

    def fill(g: Generator, n: int, kind: np.dtype, contiguous: bool) -> np.ndarray:
        angle = math.pi * (g.uniform(n, streams.F64) - 0.5)
        return streams.fma64(streams.each(math.tan, angle), float(sigma), float(median))

    return _refill(self, "cauchy", fill, generator)


@attribute
def log_normal_(self: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with numbers whose logarithm is normal.

    >>> import pellucid as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.zeros(3).log_normal_()
    tensor([5.9263e+01, 1.5116e+00, 3.4819e-02])
    """
    _check_real("log_normal_", plain(self.array.dtype))
    if not std > 0:
        raise RuntimeError(explain(f"log_normal_ expects std > 0.0, but found std={std:g}", str(here())))

    def fill(g: Generator, n: int, kind: np.dtype, contiguous: bool) -> np.ndarray:
        return streams.each(math.exp, streams.normal_one_by_one(g, n, float(mean), float(std)))

    return _refill(self, "log_normal", fill, generator)


# --- dropout


@operation(
    module="torch.nn.functional",
    methods=(),
    samples=lambda draw: [call(draw(2, 3), 0.0), call(draw(2, 3), 1.0), call(draw(3), 0.5, False), call(draw(0), 0.5)],
)
def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Set each element to zero with probability p and scale the others by 1 / (1 - p).

    >>> import pellucid as torch
    >>> dropout(torch.ones(2), p=0.5, training=False)
    tensor([1., 1.])
    """
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0 or not math.prod(input.shape):
        return input
    array = like("dropout", np.empty, input)
    if p == 1:
        array[...] = 0
    else:
        _fill_array(array, _coins(1 - p), None)
        array /= array.dtype.type(1 - p)
    return input.mul_(wrap(array)) if inplace else input * wrap(array)


attribute(bernoulli)
attribute(multinomial)

__all__ = [
    "Generator", "bernoulli", "default_generator", "get_rng_state", "initial_seed", "manual_seed",
    "multinomial", "normal", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm", "seed",
    "set_rng_state",
]  # fmt: skip
