"""Interpolation: a tensor resampled to another size along its spatial dimensions.

Every mode is a linear map along each dimension (interpolation_taps.py), and its own derivative's adjoint.
"""

from typing import Any

import numpy as np
from numpy import ndarray

from pellucid.core.attention import HALVES
from pellucid.core.flags import Truth
from pellucid.core.primitive import constant
from pellucid.core.record import bind
from pellucid.ops.arguments import Shape, expect, name_of, refusal
from pellucid.ops.nn.adaptive_pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from pellucid.ops.nn.separable import Map, pairs, separable
from pellucid.ops.operation import call, operation

NEAREST = {rank: separable(f"upsample_nearest{rank}d", f"UpsampleNearest{rank}DBackward0") for rank in (1, 2, 3)}
EXACT = {
    rank: separable(f"upsample_nearest_exact{rank}d", f"UpsampleNearestExact{rank}DBackward0") for rank in (1, 2, 3)
}
AREA = {1: adaptive_avg_pool1d, 2: adaptive_avg_pool2d, 3: adaptive_avg_pool3d}

# (mode, antialias) -> kind of map, number of dimensions, row
SMOOTH = {
    ("linear", False): ("linear", 1, separable("upsample_linear1d", "UpsampleLinear1DBackward0")),
    ("bilinear", False): ("linear", 2, separable("upsample_bilinear2d", "UpsampleBilinear2DBackward0")),
    ("trilinear", False): ("linear", 3, separable("upsample_trilinear3d", "UpsampleTrilinear3DBackward0")),
    ("bicubic", False): ("cubic", 2, separable("upsample_bicubic2d", "UpsampleBicubic2DBackward0")),
    ("bilinear", True): ("linear_aa", 2, separable("upsample_bilinear2d_aa", "UpsampleBilinear2DAaBackward0")),
    ("bicubic", True): ("cubic_aa", 2, separable("upsample_bicubic2d_aa", "UpsampleBicubic2DAaBackward0")),
    ("lanczos", True): ("lanczos_aa", 2, separable("upsample_lanczos2d_aa", "UpsampleLanczos2DAaBackward0")),
}


# --- bytes: whole numbers throughout, rounded after each dimension


def _bytes_along(a: ndarray, axis: int, map: Map) -> ndarray:
    """Weights as whole multiples of a power of two that fit 16 bits; sums rounded and cut to a byte."""
    outputs, places, weights = pairs(map)
    dense = np.zeros((map.m, map.n))
    np.add.at(dense, (outputs, places), 1.0 if weights is None else weights)
    bits = next((b for b in range(22) if int(0.5 + dense.max(initial=0.0) * 2 ** (b + 1)) >= 2**15), 22)
    whole = np.trunc(dense * 2**bits + np.where(dense < 0, -0.5, 0.5)).astype(np.int64)
    total = np.moveaxis(np.tensordot(a.astype(np.int64), whole, (axis, 1)), -1, axis)
    return np.clip((total + 2 ** (bits - 1)) >> bits, 0, 255).astype(np.uint8, order="C")


def _bytes(a: ndarray, maps: tuple[Map, ...]) -> ndarray:
    result = a
    for i in range(len(maps) - 1, -1, -1):
        if maps[i].n != maps[i].m:
            result = _bytes_along(result, i - len(maps), maps[i])
    return a.copy() if result is a else result


bytes_row = bind(constant("upsample_bytes", _bytes, 1, batch=lambda op, a, maps: op(a, maps)))


# --- sizes and scales


def _target(input: Any, size: Any, scale_factor: Any) -> tuple[Shape | None, tuple[float, ...] | None]:
    """The sizes or the scale factors, one per spatial dimension: exactly one of the two."""
    rank, plane = input.ndim - 2, list(input.shape[2:])
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    given = size if scale_factor is None else scale_factor
    listed = tuple(given) if isinstance(given, (tuple, list)) else (given,) * rank
    if len(listed) != rank:
        what = "output" if scale_factor is None else "scale_factor"
        raise ValueError(
            f"Input and {what} must have the same number of spatial dimensions, but got input with spatial dimensions "
            f"of {plane} and {what} of {given}. Please provide input tensor in (N, C, d1, d2, ...,dK) format."
        )
    if scale_factor is not None:
        return None, tuple(map(float, listed))
    if not all(isinstance(n, (int, np.integer)) for n in listed):
        kinds = [type(n) for n in listed]
        raise TypeError(
            "expected size to be one of int or Tuple[int] or Tuple[int, int] or Tuple[int, int, int], but got size "
            f"with types {kinds}"
        )
    return tuple(map(int, listed)), None


def _maps(input: Any, kind: str, sizes: Shape, scales: Any, settings: tuple[Any, ...]) -> tuple[Map, ...]:
    """One map per spatial dimension; coordinates are computed in float64 only for tensors of float64."""
    plane = tuple(input.shape)[2:]
    if 0 in tuple(input.shape)[1:] or min(sizes) < 1:
        what = f"Input and output sizes should be greater than 0, but got input {list(input.shape)}"
        raise refusal(RuntimeError, f"interpolate: {what} and output {list(sizes)}")
    double = input.dtype.itemsize == 8 or (input.array.dtype == np.uint8 and kind not in ("nearest", "nearest-exact"))
    char = "d" if double else "f"
    factors = (None,) * len(sizes) if scales is None else scales
    return tuple(
        Map(kind, n, m, (*settings, factor, char)) for n, m, factor in zip(plane, sizes, factors, strict=True)
    )


def _check_dtype(input: Any, mode: str, antialias: bool) -> None:
    dtype = np.dtype(input.array.dtype)
    floating = dtype.kind == "f" or dtype in HALVES
    takes_bytes = dtype == np.uint8 and mode not in ("linear", "trilinear")
    if not (floating or takes_bytes) or (antialias and dtype in HALVES):
        raise refusal(NotImplementedError, f"interpolate (mode {mode!r}) not implemented for '{name_of(input)}'")


NEEDS = {"linear": 3, "bilinear": 4, "trilinear": 5}


def _unsupported(input: Any, mode: str) -> Exception:
    if mode in NEEDS and 3 <= input.ndim <= 5:
        what = f"Got {input.ndim}D input, but {mode} mode needs {NEEDS[mode]}D input"
        return refusal(NotImplementedError, what)
    modes = "nearest | linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact"
    what = f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {input.ndim}D) for the modes: {modes}"
    return refusal(NotImplementedError, f"{what} (got {mode})")


@operation(
    samples=lambda draw: [
        call(draw(1, 2, 3), 5), call(draw(2, 1, 3, 4), scale_factor=2), call(draw(1, 1, 2, 3, 2), (3, 2, 4)),
        call(draw(1, 1, 5, 4), (3, 7), mode="nearest-exact"), call(draw(1, 2, 5), scale_factor=1.7, mode="linear"),
        call(draw(1, 1, 3, 4), (5, 2), mode="bilinear", align_corners=True),
        call(draw(1, 1, 4, 3), scale_factor=(0.6, 2.3), mode="bicubic"),
        call(draw(1, 1, 2, 3, 2), 3, mode="trilinear"), call(draw(1, 1, 5, 4), (2, 3), mode="area"),
        call(draw(1, 1, 6, 3), (3, 4), mode="bilinear", antialias=True),
        call(draw(1, 1, 6, 4), (4, 3), mode="bicubic", align_corners=False, antialias=True),
        call(draw(1, 1, 3, 4), scale_factor=1.7, mode="bilinear", recompute_scale_factor=True),
    ],
    module="torch.nn.functional",
)  # fmt: skip
def interpolate(
    input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None,
    recompute_scale_factor: Truth = None, antialias: Truth = False,
) -> Any:  # fmt: skip
    """Resample the dimensions behind batch and channels to a size, or by a factor.

    Modes: nearest, nearest-exact, area, linear, bilinear, trilinear, bicubic, lanczos. `antialias` smooths when
    shrinking.

    >>> import pellucid as torch
    >>> torch.nn.functional.interpolate(torch.tensor([[[1.0, 3.0]]]), size=3, mode="linear", align_corners=True)
    tensor([[[1., 2., 3.]]])
    """
    if mode in ("nearest", "area", "nearest-exact") and align_corners is not None:
        modes = "linear | bilinear | bicubic | trilinear"
        raise ValueError(f"align_corners option can only be set with the interpolating modes: {modes}")
    sizes, scales = _target(input, size, scale_factor)
    if recompute_scale_factor and sizes is not None:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    if sizes is None:
        assert scales is not None
        sizes = tuple(int(n * factor) for n, factor in zip(input.shape[2:], scales, strict=True))
        scales = None if recompute_scale_factor or mode == "area" else scales
    if antialias and not (mode in ("bilinear", "bicubic", "lanczos") and input.ndim == 4):
        what = "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes"
        raise ValueError(f"{what} and requires a 4-D tensor as input")
    return _resampled(input, sizes, scales, mode, bool(align_corners), bool(antialias))


def _resampled(input: Any, sizes: Shape, scales: Any, mode: str, align: bool, antialias: bool) -> Any:
    rank = input.ndim - 2
    if mode == "area" and rank in AREA:
        return AREA[rank](input, sizes)
    if mode in ("nearest", "nearest-exact") and rank in NEAREST:
        _check_dtype(input, mode, False)
        row = (NEAREST if mode == "nearest" else EXACT)[rank]
        return row(input, _maps(input, mode, sizes, scales, (rank == 2,)))
    if mode == "lanczos" and (align or not antialias):
        why = "does not support align_corners=True" if align else "requires antialias=True"
        raise ValueError(f"Lanczos mode {why}")
    kind, wanted, row = SMOOTH.get((mode, antialias), ("", -1, None))
    if rank != wanted:
        raise _unsupported(input, mode)
    _check_dtype(input, mode, antialias)
    maps = _maps(input, kind, sizes, scales, (align,))
    return bytes_row(input, maps) if input.array.dtype == np.uint8 else row(input, maps)


@operation(
    samples=lambda draw: [
        call(draw(1, 2, 3), 5), call(draw(1, 1, 3, 4), scale_factor=2, mode="bilinear", align_corners=True),
    ],
    module="torch.nn.functional", reference="",  # PyTorch warns that it prefers interpolate
)  # fmt: skip
def upsample(
    input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None
) -> Any:
    """An older name of `interpolate`.

    >>> import pellucid as torch
    >>> torch.nn.functional.upsample(torch.tensor([[[1.0, 3.0]]]), scale_factor=2)
    tensor([[[1., 1., 3., 3.]]])
    """
    return interpolate(input, size, scale_factor, mode, align_corners)


@operation(
    samples=lambda draw: [call(draw(1, 1, 3, 4), 5), call(draw(1, 1, 3, 4), scale_factor=2)],
    module="torch.nn.functional", reference="",
)  # fmt: skip
def upsample_nearest(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    """Resample by taking the element before each place.

    >>> import pellucid as torch
    >>> torch.nn.functional.upsample_nearest(torch.tensor([[[1.0, 3.0]]]), 3)
    tensor([[[1., 1., 3.]]])
    """
    return interpolate(input, size, scale_factor, "nearest")


@operation(
    samples=lambda draw: [call(draw(1, 1, 3, 4), 5), call(draw(1, 1, 3, 4), scale_factor=2)],
    module="torch.nn.functional", reference="",
)  # fmt: skip
def upsample_bilinear(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    """Resample two dimensions linearly, the corners staying where they are.

    >>> import pellucid as torch
    >>> torch.nn.functional.upsample_bilinear(torch.tensor([[[[1.0, 3.0]]]]), (1, 3))
    tensor([[[[1., 2., 3.]]]])
    """
    return interpolate(input, size, scale_factor, "bilinear", True)


@operation(
    samples=lambda draw: [
        call(draw(1, 1, 6, 3), (3, 4), False), call(draw(1, 2, 4, 4), [2, 2], True),
        call(draw(1, 1, 4, 4), (2, 3), False, 0.6, 0.8), call(draw(1, 1, 5, 4), None, False, scale_factors=(0.6, 1.5)),
    ],
    name="_upsample_bilinear2d_aa", methods=(), reference="torch.ops.aten._upsample_bilinear2d_aa",
)  # fmt: skip
def upsample_bilinear2d_aa(
    input: Any, output_size: Any, align_corners: Truth, scales_h: float | None = None, scales_w: float | None = None, *,
    scale_factors: Any = None,
) -> Any:  # fmt: skip
    """Resample two dimensions linearly, smoothed when shrinking: what interpolate calls for antialias=True.

    >>> import pellucid as torch
    >>> from pellucid.ops.nn.interpolate import upsample_bilinear2d_aa
    >>> upsample_bilinear2d_aa(torch.tensor([[[[0.0, 0.0, 4.0, 4.0]]]]), (1, 2), False)
    tensor([[[[0.5714, 3.4286]]]])
    """
    expect(input.ndim == 4, "It is expected input_size equals to 4")
    if output_size is None:
        output_size, scale_factors = _target(input, None, scale_factors)
        output_size = [int(n * factor) for n, factor in zip(input.shape[2:], scale_factors, strict=True)]
    expect(len(output_size) == 2, "It is expected output_size equals to 2")
    scales = scale_factors or (None if scales_h is None and scales_w is None else (scales_h, scales_w))
    return _resampled(input, tuple(map(int, output_size)), scales, "bilinear", align_corners, True)
