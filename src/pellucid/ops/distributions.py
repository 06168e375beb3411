"""Random numbers of a distribution: normal, bernoulli, multinomial, the in-place fills.

Arguments are checked before anything is drawn: a refused call leaves the generator and the tensor as they were. A
tensor that is filled in place depends on its old values no more: their gradient is zero.
"""

import math
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core import modes
from pellucid.core.attributes import attribute, concrete
from pellucid.core.flags import received
from pellucid.core.inplace import check_writable, note_written, overwrite
from pellucid.core.kinds import Kind, pattern, plain
from pellucid.core.meta import Meta
from pellucid.core.primitive import elementwise, general, same
from pellucid.core.record import bind
from pellucid.core.tensor import Tensor, wrap
from pellucid.core.views import current_node
from pellucid.ops import streams
from pellucid.ops.arguments import refusal, refuse
from pellucid.ops.construct import marked
from pellucid.ops.create import check_room, chosen, like, made, one_size
from pellucid.ops.expand import broadcast
from pellucid.ops.random import (
    HALF_POWER,
    Fill,
    check_integers,
    check_real,
    fill_array,
    integer_numbers,
    integers_from,
    largest_integer,
    normal_numbers,
    source_of,
    uniform_numbers,
)
from pellucid.ops.shape import zeros_like_row
from pellucid.ops.streams import Generator


def _check_std(std: float) -> None:
    if not std >= 0:
        raise refusal(RuntimeError, f"normal expects std >= 0.0, but found std {std:g}")


def drawn(name: str, grad_name: str) -> Any:
    """A row (parameter, what was drawn): the draw itself, whose derivative by the parameter PyTorch calls zero."""
    return bind(
        elementwise(
            name, lambda a, b: np.broadcast_to(b, np.broadcast_shapes(a.shape, b.shape)).copy(),
            lambda g: zeros_like_row(g), same, grad_name=grad_name, dtypes="any",
        )
    )  # fmt: skip


drawn_normal_row = drawn("drawn_normal", "NormalBackward3")
drawn_bernoulli_row = drawn("drawn_bernoulli", "BernoulliBackward0")


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
        check_real("normal_kernel_cpu", kind)
        shape = one_size("normal", size)
        check_room("normal", shape, kind)
        array = np.empty(shape, kind)
        fill_array(array, normal_numbers(float(mean), float(std)), generator)
        return made(array, requires_grad, out, "normal")
    array = _normal_of_tensors(mean, std, generator)
    result = made(array, requires_grad, out, "normal", "cast")
    for parameter in (mean, std) if out is None else ():
        if isinstance(parameter, Tensor) and parameter.requires_grad:
            result = drawn_normal_row(parameter, result)
    return result


def _normal_of_tensors(mean: Any, std: Any, generator: Any) -> np.ndarray:
    """Noise of deviation std (a number) or 1, then scaled by a tensor std, then moved by mean."""
    means, deviations = (concrete(v, "normal()") if isinstance(v, Tensor) else v for v in (mean, std))
    if isinstance(deviations, np.ndarray):
        if deviations.size and not deviations.min() >= 0:
            raise refusal(RuntimeError, "normal expects all elements of std >= 0.0")
    else:
        _check_std(deviations)
    kind = plain((means if isinstance(means, np.ndarray) else deviations).dtype)
    check_real("normal_kernel_cpu", kind)
    try:
        array = np.empty(np.broadcast_shapes(np.shape(means), np.shape(deviations)), kind)
    except ValueError:
        shapes = f"{np.shape(means)} and {np.shape(deviations)}"
        raise refusal(RuntimeError, f"normal: shapes {shapes} must match: they do not broadcast") from None
    scale = 1.0 if isinstance(deviations, np.ndarray) else float(deviations)
    fill_array(array, normal_numbers(0.0, scale), generator)
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
    check_real("bernoulli_tensor_cpu_p_", plain(input.array.dtype))
    chances = concrete(input, "bernoulli()")
    array = np.empty(chances.shape, plain(chances.dtype))
    fill_array(array, _bernoulli_of(chances, array), generator)
    if out is not None:
        refuse(out, "c", "\"bernoulli_tensor_cpu_self_\" not implemented for '{}'", NotImplementedError)
    result = made(array, False, out, "bernoulli", "any")
    return drawn_bernoulli_row(input, result) if out is None and input.requires_grad else result


def _bernoulli_of(p: np.ndarray, target: np.ndarray) -> Fill:
    """Ones with the probability of each element, compared in the order of the target's memory."""
    if p.size and not (p.min() >= 0 and p.max() <= 1):
        text = "bernoulli: Expected p_in >= 0 && p_in <= 1 to be true, but got false."
        raise refusal(RuntimeError, text, f"the probabilities reach from {p.min()} to {p.max()}")
    strides = pattern(target).strides
    order = sorted(range(target.ndim), key=lambda axis: -abs(strides[axis]))
    flat = broadcast(p, target.shape).transpose(order).reshape(-1)
    return lambda generator, n, kind, contiguous: generator.uniform(n, p.dtype) < flat


def _check_chance(name: str, p: float) -> None:
    if not 0 <= p <= 1:
        raise refusal(RuntimeError, f"{name} expects p to be in [0, 1], but got p={p:g}")


@received
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
    draw = _with_replacement if replacement and num_samples > 1 else _without_replacement
    drawn = draw(rows, num_samples, source_of(generator))
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
        raise refusal(RuntimeError, f"multinomial: {bad}")


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
    source_of(generator)
    check_writable(target, f"{name}_")
    array = target.array
    if isinstance(array, Meta):  # no numbers are drawn for values that nobody has
        return target
    recording = modes.is_grad_enabled() and current_node(target) is not None
    if isinstance(array, Kind) or recording:
        values = np.empty(array.shape, plain(array.dtype)) if isinstance(array, Kind) else np.empty_like(array)
        fill_array(values, fill, generator)
        return overwrite(target, REPLACED[name](target, values) if recording else wrap(values), f"{name}_")
    fill_array(array, fill, generator)
    note_written(target, array, f"{name}_")
    return target


@attribute
def normal_(self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with normal random numbers.

    >>> import pellucid as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.zeros(3).normal_(10, 0.5)
    tensor([10.7705,  9.8533,  8.9106])
    """
    check_real("normal_kernel_cpu", plain(self.array.dtype))
    _check_std(std)
    scale = float(std) * HALF_POWER if np.dtype(self.array.dtype).kind == "c" else float(std)
    return _refill(self, "normal", normal_numbers(float(mean), scale), generator)


@attribute
def uniform_(self: Tensor, *bounds: float, generator: Generator | None = None, **named: float) -> Tensor:
    """Fill with uniform random numbers in [from, to).

    >>> import pellucid as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.zeros(3).uniform_(-1, 1)
    tensor([-0.0075,  0.5364, -0.8230])
    """
    low, high = _two_bounds("uniform_", bounds, named, 0.0, 1.0)
    check_real("check_uniform_bounds", plain(self.array.dtype))
    _check_interval(low, high, float(dtypes.finfo(self.dtype).max))
    return _refill(self, "uniform", uniform_numbers(float(low), float(high)), generator)


def _check_interval(low: float, high: float, largest: float) -> None:
    """Refuse bounds in the wrong order, and those that the dtype does not hold or whose distance it does not."""
    for label, value in (("from", low), ("to", high)):
        if not -largest <= value <= largest:
            raise refusal(RuntimeError, f"{label} is out of bounds: uniform_ has no numbers beyond {largest:g}")
    if not low <= high:
        text = f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}"
        raise refusal(RuntimeError, text)
    if high - low > largest:
        raise refusal(RuntimeError, f"uniform_ expects to-from <= {largest:g}, but found to={high:g} and from={low:g}")


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
        fill = integers_from(low, kind) if bounds or low else _whole_range(kind)
        return _refill(self, "random", fill, generator)
    low, high = check_integers(low, high, kind)
    return _refill(self, "random", integer_numbers(low, high), generator)


def _whole_range(kind: np.dtype) -> Fill:
    """Integers from 0 to the largest the dtype holds."""
    return integer_numbers(0, largest_integer(kind) + 1, wide=kind.itemsize == 8)


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
        check_real("bernoulli_tensor_cpu_p_", plain(chances.dtype))
        return _refill(self, "bernoulli", _bernoulli_of(chances, self.array), generator)
    _check_chance("bernoulli_", p)
    return _refill(self, "bernoulli", coins(float(p)), generator)


def coins(p: float) -> Fill:
    """Ones with probability p, drawn in double precision whatever the dtype."""
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
        raise refusal(RuntimeError, f"exponential_: {text} but you specified {kind}")
    if not lambd > 0:
        raise refusal(RuntimeError, f"exponential_ expects lambda > 0.0, but found lambda={lambd:g}")
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
        raise refusal(RuntimeError, f"geometric_ expects p to be in (0, 1), but got p={p:g}")
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
    check_real("cauchy_", plain(self.array.dtype))
    if not sigma > 0:
        raise refusal(RuntimeError, f"cauchy_ expects sigma > 0.0, but found sigma={sigma:g}")

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
    check_real("log_normal_", plain(self.array.dtype))
    if not std > 0:
        raise refusal(RuntimeError, f"log_normal_ expects std > 0.0, but found std={std:g}")

    def fill(g: Generator, n: int, kind: np.dtype, contiguous: bool) -> np.ndarray:
        return streams.each(math.exp, streams.normal_one_by_one(g, n, float(mean), float(std)))

    return _refill(self, "log_normal", fill, generator)


attribute(bernoulli)
attribute(multinomial)

__all__ = ["bernoulli", "multinomial", "normal"]
