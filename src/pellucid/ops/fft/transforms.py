"""The discrete Fourier transform as rows: of complex numbers, of real ones, and back to real ones.

SciPy computes it (pocketfft, in the precision of the input). A transform is linear, so each derivative is a transform
again: the adjoint of a forward transform is the inverse one without its division, which is what `OPPOSITE` turns a norm
into. Of the spectrum of a real signal only one half is kept, where most elements stand for two (themselves and the
conjugate that is left out): `weigh` counts them twice, or by half.
"""

from typing import Any

import numpy as np
import scipy.fft
from numpy import ndarray

from pellucid.core.primitive import multilinear
from pellucid.core.record import bind
from pellucid.ops.arguments import ALL, Axes, Row, Shape, shifted
from pellucid.ops.complex_numbers import real_row

OPPOSITE = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def _transform(a: ndarray, axes: Axes, norm: str, inverse: bool) -> ndarray:
    if not axes:
        return a.astype(np.result_type(a.dtype, np.complex64))
    y = (scipy.fft.ifftn if inverse else scipy.fft.fftn)(a, axes=axes, norm=norm)
    if a.dtype.kind != "c":
        y.imag += 0.0  # SciPy conjugates frequency 0 too, and -0.0 is shown as such
    return y


fft_c2c_row = bind(
    multilinear(
        "fft_c2c", _transform,
        lambda g, axes, norm, inverse: fft_c2c_row(g, axes, OPPOSITE[norm], not inverse),
        grad_name="FftC2CBackward0", batch=lambda op, a, axes, norm, inverse: op(a, shifted(axes), norm, inverse),
    )
)  # fmt: skip


def of_real(name: str, grad_name: str) -> Row:
    """A row (a, axes, norm, inverse): the whole spectrum of real numbers, in half the time of complex ones."""
    return bind(
        multilinear(
            name, _transform,
            lambda g, axes, norm, inverse: real_row(fft_c2c_row(g, axes, OPPOSITE[norm], not inverse)),
            grad_name=grad_name, batch=lambda op, a, axes, norm, inverse: op(a, shifted(axes), norm, inverse),
        )
    )  # fmt: skip


fft_real_row = of_real("fft_real", "FftR2CBackward0")
fftn_real_row = of_real("fftn_real", "FftC2CBackward0")  # PyTorch makes the input complex first


# --- one half of the spectrum: the last of the axes goes from n to n // 2 + 1 elements, and back

fft_r2c_row = bind(
    multilinear(
        "fft_r2c", lambda a, axes, norm: scipy.fft.rfftn(a, axes=axes, norm=norm),
        lambda g, a_shape, axes, norm: _r2c_back(g, axes, norm, a_shape[axes[-1]]),
        grad_name="FftR2CBackward0", batch=lambda op, a, axes, norm: op(a, shifted(axes), norm),
    )
)  # fmt: skip


def _r2c_back(g: Any, axes: Axes, norm: str, n: int) -> Any:
    return fft_c2r_row(weigh_row(g, axes[-1], n, 0.5), axes, OPPOSITE[norm], n)


def _to_real(a: ndarray, axes: Axes, norm: str, n: int) -> ndarray:
    return scipy.fft.irfftn(a, (*(a.shape[i] for i in axes[:-1]), n), axes, norm)


fft_c2r_row = bind(
    multilinear(
        "fft_c2r", _to_real,
        lambda g, axes, norm, n: weigh_row(fft_r2c_row(g, axes, OPPOSITE[norm]), axes[-1], n, 2.0),
        grad_name="FftC2RBackward0", batch=lambda op, a, axes, norm, n: op(a, shifted(axes), norm, n),
    )
)  # fmt: skip


def _weigh(a: ndarray, axis: int, n: int, factor: float) -> ndarray:
    """The first element, and of an even number the last, stand for themselves alone."""
    out = a.copy()
    out[(*(ALL,) * axis, slice(1, (n + 1) // 2))] *= factor
    return out


weigh_row = bind(
    multilinear(
        "weigh_half_spectrum", _weigh, lambda g, axis, n, factor: weigh_row(g, axis, n, factor),
        batch=lambda op, a, axis, n, factor: op(a, axis + 1, n, factor),
    )
)  # fmt: skip


# --- the sizes to transform


def _fit(a: ndarray, shape: Shape) -> ndarray:
    common = tuple(slice(0, min(n, m)) for n, m in zip(a.shape, shape, strict=True))
    out = np.zeros(shape, a.dtype)
    out[common] = a[common]
    return out


# fit_row(a, shape): each axis cut off at its end, or continued with zeros; so is its gradient.
fit_row = bind(
    multilinear(
        "fit_sizes", _fit, lambda g, a_shape, shape: fit_row(g, a_shape),
        batch=lambda op, a, shape: op(a, (a.shape[0], *shape)),
    )
)  # fmt: skip
