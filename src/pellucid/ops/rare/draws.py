"""Random draws whose distribution a tensor sets: Poisson, binomial, gamma.

Each element is drawn by the method PyTorch uses (Marsaglia and Tsang's for gamma, Hoermann's rejection for large
Poisson rates and binomials, products of uniform numbers and waiting times for small ones), in the same order, so that
for the same seed the numbers are PyTorch's.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.special

from pellucid import dtypes
from pellucid.core.attributes import concrete
from pellucid.core.primitive import constant, elementwise
from pellucid.core.record import bind
from pellucid.core.tensor import Tensor, wrap
from pellucid.ops import streams
from pellucid.ops.arguments import expect, refusal
from pellucid.ops.distributions import drawn
from pellucid.ops.operation import READS_VALUES, call, operation
from pellucid.ops.random import source_of
from pellucid.ops.search import underived
from pellucid.ops.streams import Generator

UNREPEATED = READS_VALUES | dict.fromkeys(
    ("forward_equals_torch", "gradient_equals_torch", "gradient_equals_differences", "second_order_equals_torch",
     "second_order_equals_differences", "forward_mode_is_the_adjoint", "batching_is_a_loop", "layout_does_not_matter",
     "single_precision_is_kept", "node_name"),
    "a draw is a number of its own: the stream gives the next",
)  # fmt: skip


Next = Callable[[], float]  # the next number of a stream
THIRD = float(np.float32(1 / 3))  # the method's shift; PyTorch's is rounded to single precision


class Ahead:
    """Single numbers of a stream, read in blocks: asking the generator for each one costs a hundred times as much.

    Used in a `with` block, it leaves the generator where reading one by one would have left it.
    """

    def __init__(self, generator: Generator, block: int) -> None:
        self.generator, self.block, self.used = generator, block, 0

    def __enter__(self) -> "Ahead":
        self.engine = self.generator._twister().bit_generator
        self.start: Any = self.engine.state
        self.numbers: Iterator[float] = iter(())
        return self

    def __exit__(self, *exception: object) -> None:
        self.engine.state = self.start
        self.generator.words32(2 * self.used)

    def uniform(self) -> float:
        """The next uniform number."""
        number = next(self.numbers, None)
        if number is None:
            self.numbers = iter(self.generator.uniform(self.block, streams.F64).tolist())
            number = next(self.numbers)
        self.used += 1
        return float(number)

    def normal(self) -> float:
        """The next normal number, by Box and Muller; the second of a pair waits in the generator."""
        waiting, self.generator.next_normal = self.generator.next_normal, None
        if waiting is not None:
            return waiting
        angle, second = 2.0 * math.pi * self.uniform(), self.uniform()
        radius = math.sqrt(-2.0 * math.log1p(-second))
        self.generator.next_normal = radius * math.sin(angle)
        return radius * math.cos(angle)


def _ahead(generator: Any, count: int) -> Ahead:
    return Ahead(source_of(generator), min(4 * count + 4, 4096))


def _drawn(one: Callable[..., float], kind: np.dtype, *parameters: np.ndarray) -> np.ndarray:
    """An array of draws, one for each set of parameters."""
    sets = np.broadcast(*parameters)
    numbers = [one(*(float(value) for value in each)) for each in sets]
    return np.array(numbers, np.float64).reshape(sets.shape).astype(kind)


def one_poisson(rate: float, uniform: Next) -> float:
    """A Poisson number: for small rates uniform numbers are multiplied until their product falls below exp(-rate)."""
    if rate >= 10:
        return _large_poisson(rate, uniform)
    count, product, end = 0, 1.0, math.exp(-rate)
    while rate > 0:
        product *= uniform()
        if product <= end:
            break
        count += 1
    return float(count)


def _large_poisson(rate: float, uniform: Next) -> float:
    """Hoermann's transformed rejection (1993): the ratio of uniform numbers under a hat that fits closely."""
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = -0.059 + 0.02483 * b
    squeeze = 0.9277 - 3.6224 / (b - 2)
    scale = math.log(1.1239 + 1.1328 / (b - 3.4))
    while True:
        u, v = uniform() - 0.5, uniform()
        edge = 0.5 - abs(u)
        k = math.floor((2 * a / edge + b) * u + rate + 0.43)
        if edge >= 0.07 and v <= squeeze:
            return float(k)
        if k < 0 or (edge < 0.013 and v > edge):
            continue
        if math.log(v) + scale - math.log(a / edge**2 + b) <= k * math.log(rate) - rate - math.lgamma(k + 1):
            return float(k)


def one_binomial(count: float, chance: float, uniform: Next) -> float:
    """A binomial number, by counting successes or failures, whichever are rarer."""
    if chance > 0.5:
        return count - one_binomial(count, 1 - chance, uniform) if chance < 1 else count
    if count <= 0 or chance <= 0:
        return 0.0
    if math.isnan(chance) or not math.isfinite(count):
        return math.nan  # PyTorch would try a count of NaN for ever
    if count * chance >= 10:
        return _large_binomial(count, chance, uniform)
    waited, successes, rate = 0.0, 0, math.log1p(-chance)
    while True:  # the waiting time up to each success is geometric
        u = uniform()
        step = math.log(u) / rate if u > 0 else math.inf
        waited += math.ceil(step) if step < math.inf else step  # of a very small chance it is beyond all numbers
        if waited > count:
            return float(successes)
        successes += 1


def _large_binomial(count: float, chance: float, uniform: Next) -> float:
    """Hoermann's transformed rejection for binomials (1993), with the tails of Stirling's formula."""
    deviation = math.sqrt(count * chance * (1 - chance))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * chance
    odds, middle = chance / (1 - chance), math.floor((count + 1) * chance)
    while True:
        u, v = uniform() - 0.5, uniform()
        edge = 0.5 - abs(u)
        k = math.floor((2 * a / edge + b) * u + count * chance + 0.5)
        if edge >= 0.07 and v <= 0.92 - 4.2 / b:
            return float(k)
        if not 0 <= k <= count:
            continue
        bound = (
            (middle + 0.5) * math.log((middle + 1) / (odds * (count - middle + 1)))
            + (count + 1) * math.log((count - middle + 1) / (count - k + 1))
            + (k + 0.5) * math.log(odds * (count - k + 1) / (k + 1))
            + _tail(middle) + _tail(count - middle) - _tail(k) - _tail(count - k)
        )  # fmt: skip
        if math.log(v * (2.83 + 5.1 / b) * deviation / (a / edge**2 + b)) <= bound:
            return float(k)


def _tail(k: float) -> float:
    """What Stirling's formula for log(k!) leaves out."""
    return math.lgamma(k + 1) - ((k + 0.5) * math.log(k + 1) - (k + 1) + 0.5 * math.log(2 * math.pi))


def one_gamma(concentration: float, uniform: Next, normal: Next) -> float:
    """Marsaglia and Tsang's method (2000): the cube of a shifted normal number, rejected rarely."""
    if concentration == 0:
        return 0.0
    scale = 1.0
    if concentration < 1:
        scale, concentration = (1 - uniform()) ** (1 / concentration), concentration + 1
    d = concentration - THIRD
    while True:
        x = normal()
        y = 1 + x / math.sqrt(9 * d)
        if y <= 0:
            continue
        v, u = y**3, 1 - uniform()
        if u < 1 - 0.0331 * x**4 or math.log(u) < 0.5 * x * x + d * (1 - v + math.log(v)):
            return scale * d * v


drawn_poisson_row = drawn("drawn_poisson", "PoissonBackward0")


@operation(
    samples=lambda draw: [call(draw(2, 3, low=0.5, high=9.0)), call(draw(4, low=0.1, high=1.0)), call(draw(0))],
    methods=(), unclaimed=UNREPEATED,
)  # fmt: skip
def poisson(input: Any, generator: Any = None) -> Tensor:
    """How often something happens that happens `input` times on average.

    >>> import pellucid as torch
    >>> torch.poisson(torch.zeros(2))
    tensor([0., 0.])
    """
    rate = concrete(input, "poisson()")
    if rate.size and rate.min() < 0:
        raise refusal(RuntimeError, "invalid Poisson rate, expected rate to be non-negative")
    with _ahead(generator, rate.size) as stream:
        result = wrap(_drawn(lambda mean: one_poisson(mean, stream.uniform), rate.dtype, rate))
    return drawn_poisson_row(input, result) if input.requires_grad else result  # type: ignore[no-any-return]


@operation(
    samples=lambda draw: [call(draw.integers(3, high=9).double(), draw(3, low=0.1, high=0.9).detach())],
    methods=(), unclaimed=UNREPEATED,
)  # fmt: skip
def binomial(count: Any, prob: Any, generator: Any = None) -> Tensor:
    """How many of `count` tries succeed, each with probability `prob`.

    >>> import pellucid as torch
    >>> torch.binomial(torch.tensor([3.0]), torch.tensor([1.0]))
    tensor([3.])
    """
    tries, chance = concrete(count, "binomial()"), concrete(prob, "binomial()")
    for what, given in (("count", count), ("prob", prob)):
        if not given.is_floating_point():
            label = dtypes.scalar_name(given.dtype)
            raise refusal(ValueError, f"binomial only supports floating-point dtypes for {what}, got: {label}")
    expect(tries.dtype == chance.dtype, f"Found dtype {chance.dtype} but expected {tries.dtype}")
    with _ahead(generator, np.broadcast(tries, chance).size) as stream:
        drawn = _drawn(lambda n, p: one_binomial(n, p, stream.uniform), tries.dtype, tries, chance)
    return underived("binomial", [count, prob], drawn)


def _slope(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """How a gamma number moves with the concentration when its place in the distribution stays: by differences."""
    wide, at = a.astype(np.float64), x.astype(np.float64)
    place = scipy.special.gammainc(wide, at)
    step = 1e-4 * wide
    up, down = (scipy.special.gammaincinv(wide + side * step, place) for side in (1, -1))
    return np.asarray((up - down) / (2 * step), a.dtype)


def _gammas(concentration: np.ndarray, generator: Any, kind: np.dtype) -> np.ndarray:
    """Gamma numbers, none below the smallest of their kind."""
    smallest = float(np.finfo(kind).tiny)
    with _ahead(generator, concentration.size) as stream:
        uniform, normal = stream.uniform, stream.normal
        return _drawn(lambda k: max(one_gamma(k, uniform, normal), smallest), kind, concentration)


slope_row = bind(constant("gamma_slope", _slope, 2))
reparametrised_row = bind(
    elementwise(
        "standard_gamma", lambda a, b: np.array(b), lambda g, a, b: g * slope_row(a, b), None,
        grad_name="StandardGammaBackward0", dtypes="equal",
    )
)  # fmt: skip


@operation(
    name="_standard_gamma", methods=(), unclaimed=UNREPEATED,
    samples=lambda draw: [call(draw(2, 3, low=0.5, high=9.0)), call(draw(0))],
)  # fmt: skip
def standard_gamma(input: Any, generator: Any = None) -> Tensor:
    """Gamma numbers of the given concentrations and rate 1, differentiable by the concentration."""
    concentration = concrete(input, "_standard_gamma()")
    drawn = _gammas(concentration, generator, concentration.dtype)
    return reparametrised_row(input, wrap(drawn))  # type: ignore[no-any-return]


@operation(
    name="_sample_dirichlet", methods=(), unclaimed=UNREPEATED,
    samples=lambda draw: [call(draw(2, 3, low=0.5, high=9.0))],
)  # fmt: skip
def sample_dirichlet(input: Any, generator: Any = None) -> Tensor:
    """Shares that sum to 1 along the last dimension, without gradient: gamma numbers over their sum."""
    concentration = concrete(input, "_sample_dirichlet()")
    parts = _gammas(concentration.astype(np.float64), generator, np.dtype(np.float64))
    shares = np.asarray(parts / parts.sum(-1, keepdims=True), concentration.dtype)
    below_one = np.nextafter(shares.dtype.type(1), shares.dtype.type(0))  # 0 and 1 themselves are never drawn
    return wrap(np.clip(shares, np.finfo(shares.dtype).tiny, below_one))


@operation(
    name="_dirichlet_grad", methods=(), unclaimed=UNREPEATED,
    samples=lambda draw: [call(draw(3, low=0.1, high=0.9), draw(3, low=1.0, high=2.0), draw(3, low=3.0, high=4.0))],
)  # fmt: skip
def dirichlet_grad(x: Any, alpha: Any, total: Any) -> Tensor:
    """How a share moves with its concentration when its place in its Beta distribution stays, over `1 - x`.

    >>> import pellucid as torch
    >>> half, one, two = torch.tensor([0.5]), torch.tensor([1.0]), torch.tensor([2.0])
    >>> torch._dirichlet_grad(half, one, two)
    tensor([0.6931])
    """
    share, first, whole = (concrete(value, "_dirichlet_grad()").astype(np.float64) for value in (x, alpha, total))
    second, step = whole - first, 1e-4 * first
    place = scipy.special.betainc(first, second, share)
    up, down = (scipy.special.betaincinv(first + side * step, second, place) for side in (1, -1))
    return wrap(np.asarray((up - down) / (2 * step) / (1 - share), concrete(x, "_dirichlet_grad()").dtype))
