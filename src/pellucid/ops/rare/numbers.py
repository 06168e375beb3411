"""Whole numbers and the bits of floating point ones: gcd, lcm, frexp, nextafter, hash_tensor."""

from typing import Any

import numpy as np
from numpy import ndarray

from pellucid import return_types
from pellucid.core.primitive import constant, elementwise, general
from pellucid.core.record import bind
from pellucid.core.tensor import Tensor
from pellucid.ops.arguments import expect, means_all, name_of, refusal, shifted
from pellucid.ops.compare import integer_pairs, pairs
from pellucid.ops.operation import Draw, Sample, broadcast_hint, call, operation, unary_samples
from pellucid.ops.reduce import normal
from pellucid.ops.select import keep, meet
from pellucid.ops.shape import zeros_like_row

# --- of two tensors


def _integers_only(name: str, *tensors: Any) -> None:
    if any(tensor.array.dtype.kind not in "biu" for tensor in tensors) or all(
        tensor.array.dtype.kind == "b" for tensor in tensors
    ):
        shown = next((t for t in tensors if t.array.dtype.kind not in "iu"), tensors[0])
        raise refusal(NotImplementedError, f"\"{name}_cpu\" not implemented for '{name_of(shown)}'", try_="x.long()")


def _tensor_pairs(draw: Draw) -> list[Sample]:
    return [sample for sample in integer_pairs(draw) if isinstance(sample.args[1], Tensor)]


gcd_row = bind(elementwise("gcd", np.gcd, None, None, hint=broadcast_hint))
lcm_row = bind(elementwise("lcm", np.lcm, None, None, hint=broadcast_hint))


@operation(samples=_tensor_pairs, inplace=True, tensors=2)
def gcd(input: Any, other: Any) -> Any:
    """The greatest number that divides both integers.

    >>> import pellucid as torch
    >>> torch.gcd(torch.tensor([6, 9]), torch.tensor([4, 6]))
    tensor([2, 3])
    """
    _integers_only("gcd", input, other)
    return gcd_row(input, other)


@operation(samples=_tensor_pairs, inplace=True, tensors=2)
def lcm(input: Any, other: Any) -> Any:
    """The smallest number that both integers divide.

    >>> import pellucid as torch
    >>> torch.lcm(torch.tensor([6, 9]), torch.tensor([4, 6]))
    tensor([12, 18])
    """
    _integers_only("lcm", input, other)
    return lcm_row(input, other)


# One step of rounding is no slope: the result moves with the first, and not at all where it is the second. Half
# precision steps in its own numbers, so the row takes dtypes as they are.
nextafter_row = bind(
    elementwise(
        "nextafter", np.nextafter, lambda g, a, b: keep(g, a != b), lambda g: zeros_like_row(g), dtypes="any",
        hint=broadcast_hint,
    )
)  # fmt: skip


@operation(samples=pairs, inplace=True, tensors=2)
def nextafter(input: Any, other: Any) -> Any:
    """The next floating point number after each element, towards the other.

    >>> import pellucid as torch
    >>> torch.nextafter(torch.tensor(1.0), torch.tensor(2.0)) - 1
    tensor(1.1921e-07)
    """
    kinds = {input.array.dtype.kind, other.array.dtype.kind}
    if kinds <= {"b", "i", "u"} or "c" in kinds:
        what = f"\"nextafter_cpu\" not implemented for '{name_of(input)}'"
        raise refusal(NotImplementedError, what, try_="x.float()")
    return nextafter_row(*meet(input, other))


# --- of one tensor


def _frexp(a: ndarray) -> tuple[Any, Any]:
    mantissa, exponent = np.frexp(a)
    return mantissa, np.asarray(exponent).astype(np.int32, copy=False)


# 1 / 2**exponent: what an element was multiplied by to become its mantissa
_scale_row = bind(
    constant(
        "frexp_scale", lambda a: np.ldexp(np.ones((), a.dtype), -np.frexp(a)[1]), 1, dtypes="equal",
        batch=lambda op, a: op(a),
    )
)  # fmt: skip
frexp_row = bind(
    general(
        "frexp", _frexp, None, outputs=2, dtypes="equal",
        pullback=lambda g, a: (None if g[0] is None else g[0] * _scale_row(a),),
        jvp=lambda tangents, y, inputs, params: (tangents[0] * _scale_row(inputs[0]), None),
        batch=lambda op, a: op(a),
    )
)  # fmt: skip


@operation(samples=unary_samples)
def frexp(input: Any) -> Any:
    """Each element as mantissa · 2**exponent, the mantissa's size between 0.5 and 1.

    >>> import pellucid as torch
    >>> torch.frexp(torch.tensor([3.0, 0.25])).exponent
    tensor([ 2, -1], dtype=torch.int32)
    """
    floating = input.array.dtype.kind in "fV"
    expect(floating, f"torch.frexp() only supports floating-point dtypes, not {name_of(input)}")
    return return_types.frexp(*frexp_row(input))


def _hash(a: ndarray, axes: tuple[int, ...], keepdim: bool) -> Any:
    wide = a.astype(np.int64 if a.dtype.kind in "biu" else np.float64)
    return np.bitwise_xor.reduce(wide.view(np.uint64), axes, keepdims=keepdim)


hash_row = bind(constant("hash_tensor", _hash, 1, batch=lambda op, a, axes, keepdim: op(a, shifted(axes), keepdim)))


@operation(
    samples=lambda draw: [
        call(draw.integers(5)), call(draw(2, 3).detach()), call(draw.integers(2, 3), 1), call(draw.integers()),
        call(draw.integers(2, 3, 2), (0, -1)), call(draw(2, 0).detach(), 0), call(draw.mask(3), 0, keepdim=True),
    ],
)  # fmt: skip
def hash_tensor(input: Any, dim: Any = (), *, keepdim: bool = False, mode: int = 0) -> Any:
    """A number that changes with the elements: the exclusive or of their 64 bits.

    >>> import pellucid as torch
    >>> torch.hash_tensor(torch.tensor([1, 2, 4]))
    tensor(7, dtype=torch.uint64)
    """
    expect(mode == 0, f"Unknown hash_tensor mode: {mode}")
    if input.array.dtype.kind == "c":
        raise refusal(NotImplementedError, f"\"xor_sum_cpu\" not implemented for '{name_of(input)}'")
    everything = means_all(dim)
    what = "hash_tensor: Expected reduction dim to be specified for input.numel() == 0."
    expect(not everything or input.numel() > 0, what)
    axes = normal(dim, input.ndim)
    empty = [axis for axis in axes if not input.shape[axis]]
    if empty:
        raise refusal(IndexError, f"hash_tensor: Expected reduction dim {empty[0]} to have non-zero size.")
    return hash_row(input, axes, keepdim)
