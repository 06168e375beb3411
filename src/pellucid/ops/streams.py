"""Streams of random numbers: PyTorch's CPU generator, bit for bit, in NumPy.

The engine is the Mersenne Twister (NumPy's own, seeded the classic way). What PyTorch makes of its 32-bit words is
done here in the same order and with the same roundings: `fma` is a fused multiply-add (one rounding), which PyTorch's
AVX2 kernels use, and the logarithm, sine and cosine of the float32 normal are the Cephes polynomials. A kernel takes a
generator and a length and returns a flat array; ops/random.py gives it shape and dtype.
"""

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core.homes import known
from pellucid.core.tensor import Tensor, wrap
from pellucid.ops.arguments import refusal

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
DEFAULT_SEED = 67280421310721  # PyTorch's, of a generator that was not seeded
WORDS = 624  # of the engine's state

# PyTorch's state, 5 056 bytes; `next_normal` is the second number of a Box-Muller pair.
STATE = np.dtype(
    [
        ("seed", "<u8"), ("left", "<i4"), ("seeded", "<i4"), ("next", "<u8"), ("words", "<u8", WORDS),
        ("normal_x", "<f8"), ("next_normal", "<f8"), ("normal_rho", "<f8"), ("has_normal", "<i4"), ("padding", "<i4"),
        ("next_float", "<f4"), ("has_float", "<i4"),
    ]
)  # fmt: skip


class Generator:
    """A source of random numbers with a state of its own.

    >>> import pellucid as torch
    >>> g = torch.Generator().manual_seed(0)
    >>> torch.rand(2, generator=g)
    tensor([0.4963, 0.7682])
    """

    def __init__(self, device: Any = "cpu") -> None:
        self.device = dtypes.check_device(device)
        self._begin(DEFAULT_SEED)

    def _begin(self, seed: int) -> None:
        self._seed = seed
        self._engine: Any = None  # made at the first draw: np.random costs 20 ms to import
        self.next_normal: float | None = None

    def manual_seed(self, seed: int) -> "Generator":
        """Start the stream that belongs to a seed, and return the generator.

        >>> Generator().manual_seed(-1).initial_seed() == 2**64 - 1
        True
        """
        if not isinstance(seed, (int, np.integer)):
            raise RuntimeError(f"manual_seed expected a long, but got {type(seed).__name__}")
        if not -(2**63) <= seed < 2**64:
            raise refusal(ValueError, "manual_seed: Overflow when unpacking long long")
        self._begin(int(seed) % 2**64)
        return self

    def seed(self) -> int:
        """Start a stream nobody can foresee, and return its seed."""
        self._begin(int.from_bytes(os.urandom(8), "little") >> 1)
        return self._seed

    def initial_seed(self) -> int:
        """The seed the stream began with."""
        return self._seed

    def _twister(self) -> Any:
        if self._engine is None:
            engine: Any = np.random.MT19937()
            engine.state = np.random.RandomState(self._seed & 0xFFFFFFFF).get_state(legacy=False)
            self._engine = np.random.Generator(engine)
        return self._engine

    def get_state(self) -> Tensor:
        """The state as 5 056 bytes, in PyTorch's own layout: states can be exchanged with it."""
        state = np.zeros((), STATE)
        inner = self._twister().bit_generator.state["state"]
        position = int(inner["pos"])
        fresh = self.next_normal is None and position == WORDS and self._untouched(inner["key"])
        state["seed"], state["seeded"], state["left"] = self._seed, 1, WORDS + 1 - position
        state["next"] = 0 if fresh else position
        state["words"] = inner["key"]
        if self.next_normal is not None:
            state["next_normal"], state["has_normal"] = self.next_normal, 1
        return wrap(np.frombuffer(bytearray(state.tobytes()), np.uint8))

    def _untouched(self, key: np.ndarray) -> bool:
        """Whether nothing was drawn yet: the first word of a fresh state is the seed itself."""
        return int(key[0]) == self._seed & 0xFFFFFFFF

    def set_state(self, new_state: Tensor) -> "Generator":
        """Continue from a state that `get_state` gave, here or in PyTorch."""
        if not isinstance(new_state, Tensor) or new_state.array.dtype != np.uint8:
            raise TypeError("RNG state must be a torch.ByteTensor")
        data = np.ascontiguousarray(new_state.array).tobytes()
        if len(data) != STATE.itemsize:
            text = f"Expected a CPUGeneratorImplState of size {STATE.itemsize} but found the input RNG state size to be"
            raise refusal(RuntimeError, f"{text} {len(data)}")
        state = np.frombuffer(data, STATE)[0]
        if not 0 < state["left"] <= WORDS or not state["seeded"]:
            raise refusal(RuntimeError, "set_state: Invalid mt19937 state")
        position = WORDS if state["left"] == 1 else int(state["next"])
        engine = np.random.MT19937()
        words = state["words"].astype(np.uint32)
        engine.state = {"bit_generator": "MT19937", "state": {"key": words, "pos": position}}
        self._seed, self._engine = int(state["seed"]), np.random.Generator(engine)
        self.next_normal = float(state["next_normal"]) if state["has_normal"] else None
        return self

    def clone_state(self) -> "Generator":
        """Another generator that continues from the same state."""
        return Generator(self.device).set_state(self.get_state())

    def __reduce__(self) -> Any:
        return _restored, (self.get_state(),)

    # --- words and uniform numbers

    def words32(self, n: int) -> np.ndarray:
        """The next n words of the engine."""
        return self._twister().integers(0, 2**32, size=n, dtype=np.uint32)  # type: ignore[no-any-return]

    def words64(self, n: int) -> np.ndarray:
        """The next n double words: the first word is the high half."""
        pairs = self.words32(2 * n)
        pairs[0::2], pairs[1::2] = pairs[1::2].copy(), pairs[0::2].copy()
        return pairs.view(np.uint64)  # little-endian: the low half comes first in memory

    def uniform(self, n: int, kind: np.dtype = F32) -> np.ndarray:
        """Uniform numbers in [0, 1): 53 bits of a double word for float64, 24 of a word for all narrower dtypes."""
        if kind == F64:
            words = self.words64(n)
            words &= np.uint64(2**53 - 1)
            return words.view(np.int64) * 2.0**-53
        words = self.words32(n)
        words &= np.uint32(2**24 - 1)
        return words.astype(np.float32) * np.float32(2.0**-24)


known(Generator, "torch._C")


def _restored(state: Tensor) -> Generator:
    return Generator().set_state(state)


default_generator = Generator()
default_generator.seed()


# --- one rounding for a product and a sum

EXPONENT = np.int32(0x7F800000)
TIE, BELOW = np.int64(0x10000000), np.int64(0x1FFFFFFF)  # the bits of a float64 that a float32 has no room for


def fma32(a: Any, b: Any, c: Any) -> np.ndarray:
    """a * b + c for float32, rounded once.

    The product is exact in float64. The sum is rounded there and again on the way to float32, which goes wrong
    only when the first rounding lands midway between two float32: those few are moved off the middle.
    """
    product = np.multiply(a, b, dtype=np.float64)
    total = product + c
    middle = (total.view(np.int64) & BELOW) == TIE
    if np.count_nonzero(middle):  # four times faster than any() for few numbers
        where = np.flatnonzero(middle)
        addend = np.broadcast_to(np.asarray(c, np.float64), total.shape)[where]
        total[where] = to_odd(*two_sum(product[where], addend))
    return total.astype(np.float32)


def to_odd(total: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Make the last bit of an inexact sum odd, towards the error: a later rounding then cannot be misled."""
    bits = total.view(np.int64)
    even = (error != 0) & ((bits & 1) == 0)
    step = np.where((error > 0) == (total > 0), 1, -1)
    return np.where(even, bits + step, bits).view(np.float64)


def two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rounded sum and the error of that rounding, exactly."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def two_product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rounded product and the error of that rounding, exactly, by splitting the factors in halves."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = split(a), split(b)
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def split(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A float64 as the sum of two numbers of 26 bits."""
    scaled = a * 134217729.0
    high = scaled - (scaled - a)
    return high, a - high


def fma64(a: Any, b: Any, c: Any) -> np.ndarray:
    """a * b + c for float64, rounded once: product and sums exactly, the last one rounded to odd first."""
    a, b, c = np.broadcast_arrays(*(np.asarray(value, np.float64) for value in (a, b, c)))
    product, product_error = two_product(a, b)
    low, low_error = two_sum(c, product_error)
    high, high_error = two_sum(product, low)
    rest, error = two_sum(low_error, high_error)
    exact = high + to_odd(np.atleast_1d(rest), np.atleast_1d(error)).reshape(rest.shape)
    rough = a * b + c
    return np.where(np.isfinite(rough), exact, rough)  # of infinite numbers there are no rounding errors


def fma(a: Any, b: float, c: float, kind: np.dtype) -> np.ndarray:
    """a * b + c in a tensor's dtype, without the work when it changes nothing."""
    if b == 1 and c == 0:
        return a + 0.0 if kind == F64 else a + np.float32(0)  # turns -0.0 into 0.0, as the fused form does
    return fma64(a, b, c) if kind == F64 else fma32(a, np.float32(b), np.float64(np.float32(c)))


# --- uniform and normal numbers


def uniform(generator: Generator, n: int, low: float, high: float, kind: np.dtype) -> np.ndarray:
    """n uniform numbers in [low, high)."""
    values = generator.uniform(n, kind)
    real = F64 if kind == F64 else F32
    if low == 0 and high == 1 and kind == real:
        return values
    start, end = real.type(low), real.type(high)
    values = fma(values, float(end - start), float(start), real).astype(kind, copy=False)
    values[values == kind.type(end)] = kind.type(start)  # rounding may reach the end, which is not included
    return values


def normal(
    generator: Generator, n: int, mean: float, std: float, kind: np.dtype, contiguous: bool = True
) -> np.ndarray:
    """n normal numbers: in blocks of 16 for 16 and more that lie one after the other, else one by one."""
    if n < 16 or not contiguous:
        return normal_one_by_one(generator, n, mean, std)
    if kind == F64:
        return _in_blocks(generator.uniform(n, F64), lambda: generator.uniform(16, F64), _block64, mean, std)
    if kind == F32:
        return _in_blocks(generator.uniform(n), lambda: generator.uniform(16), _block32, mean, std)
    # Half precision draws block by block: for an incomplete last block nothing is drawn that is thrown away.
    values = np.empty(n, np.float32)
    values[: n // 16 * 16] = generator.uniform(n // 16 * 16)
    return _in_blocks(values, lambda: generator.uniform(16), _block32, mean, std)


CHUNK = 1 << 15  # numbers worked on at a time: they stay in the cache


def _in_blocks(values: np.ndarray, more: Any, block: Any, mean: float, std: float) -> np.ndarray:
    """Turn uniform numbers into normal ones, 16 at a time; an incomplete last block is drawn anew."""
    n = len(values)
    whole = n // 16 * 16
    for start in range(0, whole, CHUNK):
        part = values[start : min(whole, start + CHUNK)].reshape(-1, 16)
        block(part, mean, std)
    if n % 16:
        last = more().reshape(1, 16)
        block(last, mean, std)
        values[n - 16 :] = last[0]
    return values


def _block32(u: np.ndarray, mean: float, std: float) -> None:
    """Box-Muller in float32: 8 radii and 8 angles give 16 numbers, written over the uniform ones."""
    radius = np.sqrt(np.float32(-2) * log32((np.float32(1) - u[:, :8]).reshape(-1)))
    sine, cosine = sine_and_cosine32(u[:, 8:].reshape(-1) * np.float32(2 * math.pi))
    u[:, :8] = fma(radius * cosine, std, mean, F32).reshape(-1, 8)
    u[:, 8:] = fma(radius * sine, std, mean, F32).reshape(-1, 8)


def _block64(u: np.ndarray, mean: float, std: float) -> None:
    """Box-Muller in float64, with the C library's functions: NumPy's own may differ in the last bit."""
    radius = np.sqrt(-2 * each(math.log, 1 - u[:, :8]))
    angle = 2 * math.pi * u[:, 8:]
    cosine, sine = each(math.cos, angle), each(math.sin, angle)
    u[:, :8] = fma(radius * cosine, std, mean, F64)
    u[:, 8:] = fma(radius * sine, std, mean, F64)


def each(function: Any, values: np.ndarray) -> np.ndarray:
    """A function of Python's math for every element."""
    return np.fromiter(map(function, values.reshape(-1).tolist()), np.float64, values.size).reshape(values.shape)


def normal_one_by_one(generator: Generator, n: int, mean: float, std: float) -> np.ndarray:
    """Box-Muller in double precision; the second number of a pair waits in the generator for the next call."""
    numbers = [] if generator.next_normal is None or n == 0 else [generator.next_normal]
    missing = n - len(numbers)
    if n:
        generator.next_normal = None
    pairs = generator.uniform(2 * ((missing + 1) // 2), F64).reshape(-1, 2).tolist()
    for first, second in pairs:
        radius, angle = math.sqrt(-2.0 * math.log1p(-second)), 2.0 * math.pi * first
        numbers += (radius * math.cos(angle), radius * math.sin(angle))
    if len(numbers) > n:
        generator.next_normal = numbers.pop()
    return fma(np.array(numbers, np.float64), std, mean, F64)


# --- Cephes' polynomials for float32

LOG = (
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
    2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
)  # fmt: skip
SINE = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
COSINE = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
QUARTER_PI = (-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8)  # in three parts, for exactness
SQRT_HALF = np.float32(0.707106781186547524)


def single(value: float) -> float:
    """A constant as float32 holds it."""
    return float(np.float32(value))


def polynomial(coefficients: Sequence[float], x: np.ndarray) -> np.ndarray:
    """Horner's rule with fused multiply-adds."""
    y = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        y = fma32(y, x, single(coefficient))
    return y


def log32(x: np.ndarray) -> np.ndarray:
    """Natural logarithm of positive normal float32."""
    bits = x.view(np.int32)
    exponent = ((bits >> 23) - 126).astype(np.float32)
    x = ((bits & ~EXPONENT) | np.int32(0x3F000000)).view(np.float32)  # the mantissa, in [0.5, 1)
    small = x < SQRT_HALF
    x = x - np.float32(1) + np.where(small, x, np.float32(0))
    exponent -= small
    z = x * x
    y = polynomial(LOG, x) * x
    y = fma32(y, z, exponent * np.float32(-2.12194440e-4))
    y = fma32(z, -0.5, y)
    return fma32(exponent, 0.693359375, x + y)


def sine_and_cosine32(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sine and cosine of float32 in [0, 2π]: both polynomials, then the octant says which is which."""
    octant = (x * np.float32(1.27323954473516)).astype(np.int32)
    octant = (octant + 1) & ~np.int32(1)
    y = octant.astype(np.float32)
    for part in QUARTER_PI:
        x = fma32(y, single(part), x)
    z = x * x
    cosine = fma32(polynomial(COSINE, z) * z, z, z * np.float32(-0.5)) + np.float32(1)
    sine = fma32(polynomial(SINE, z) * z, x, x)
    straight = (octant & 2) == 0
    s, c = np.where(straight, sine, cosine), np.where(straight, cosine, sine)
    s.view(np.int32)[...] ^= (octant & 4) << 29
    c.view(np.int32)[...] ^= (~(octant - 2) & 4) << 29
    return s, c


# --- other distributions


def integers(generator: Generator, n: int, low: int, high: int, wide: bool | None = None) -> np.ndarray:
    """n integers in [low, high) as int64: a word modulo the length, or a double word for lengths from 2**28 on."""
    length = high - low
    if length >= 2**28 if wide is None else wide:
        words = generator.words64(n) % np.uint64(length) if length < 2**64 else generator.words64(n)
        return (words + np.uint64(low % 2**64)).view(np.int64)
    words = generator.words32(n)
    words %= np.uint32(length)
    return words.astype(np.int64) + low


def permutation(generator: Generator, n: int) -> np.ndarray:
    """The numbers 0..n-1 in random order, by Fisher and Yates."""
    items = list(range(n))
    if n > 1:
        rest = np.arange(n, 1, -1, dtype=np.uint32)
        places = ((generator.words32(n - 1) % rest) + np.arange(n - 1, dtype=np.uint32)).tolist()
        for i, j in enumerate(places):
            items[i], items[j] = items[j], items[i]
    return np.array(items, np.int64)


def exponential(generator: Generator, n: int, rate: float) -> np.ndarray:
    """n exponential numbers, in double precision."""
    return each(math.log1p, -generator.uniform(n, F64)) * (-1.0 / rate)
