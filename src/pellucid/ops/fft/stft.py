"""The short-time Fourier transform: the spectrum of overlapping windows of a signal, and the way back.

stft cuts the signal into frames, weights each by the window and transforms it. istft transforms back, adds the frames
up where they overlap and divides by what the windows add up to there.
"""

from typing import Any

import numpy as np
from numpy import ndarray

from pellucid.core.flags import Truth
from pellucid.core.tensor import Tensor, wrap
from pellucid.ops.arguments import expect, name_of, refusal
from pellucid.ops.axes import transpose
from pellucid.ops.complex_numbers import view_as_real_row
from pellucid.ops.expand import expand_row
from pellucid.ops.fft.transforms import fft_c2c_row, fft_c2r_row, fft_r2c_row, fft_real_row, fit_row
from pellucid.ops.flat_index import index_select_row
from pellucid.ops.operation import COMPOSED, Draw, Sample, call, operation
from pellucid.ops.select import kind_of
from pellucid.ops.slicing import slice_row, unslice_row
from pellucid.ops.strided import overlap_add_row, unfold_row

# --- at the ends of the signal

PADDINGS = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}  # PyTorch's name: NumPy's


def _padded(signal: Any, amount: int, mode: str) -> Any:
    """The signal continued at both ends."""
    *front, n = signal.shape
    if mode == "constant":
        return _within_zeros(signal, amount, n + 2 * amount)
    if mode not in PADDINGS:
        raise refusal(NotImplementedError, f"Unrecognised padding mode {mode}", try_="constant, reflect, replicate ...")
    if amount >= n + (mode == "circular") and mode != "replicate":
        what = "Padding size should be less than the corresponding input dimension"
        raise refusal(RuntimeError, f"{what}, but got: padding ({amount}, {amount}) of input {[*front, n]}")
    places = np.pad(np.arange(n), max(amount, 0), PADDINGS[mode])  # type: ignore[call-overload]
    return index_select_row(signal, wrap(places), (len(front),))


def _within_zeros(signal: Any, before: int, total: int) -> Any:
    """Zeros, `total` long, with the signal in them."""
    *front, n = signal.shape
    return unslice_row(signal, (*front, total), (..., slice(before, before + n)))


# --- the window


def _window(window: Any, win_length: int, n_fft: int, like: Any) -> Any:
    """The window in the middle of n_fft points; None when there is none and all points count alike."""
    if window is None and win_length == n_fft:
        return None
    if window is None:
        window = wrap(np.ones(win_length, np.dtype(like.array.dtype).type(0).real.dtype))
    if win_length == n_fft:
        return window
    return _within_zeros(window, (n_fft - win_length) // 2, n_fft)


def _check_window(window: Any, win_length: int, n_fft: int, what: str) -> None:
    expect(0 < win_length <= n_fft, f"expected 0 < win_length <= n_fft, but got win_length={win_length}")
    expect(window is None or tuple(window.shape) == (win_length,), what)


# --- stft


def _stft_samples(draw: Draw) -> list[Sample]:
    bell = draw(6, low=0.5, high=1.5)
    return [
        call(draw(12), 6, return_complex=True), call(draw(2, 12), 6, 2, 6, bell, return_complex=True),
        call(draw(12), 6, window=bell, center=False, normalized=True, return_complex=True),
        call(draw(12), 8, 3, 6, bell, pad_mode="constant", onesided=False, return_complex=True),
        call(draw.complex(12), 6, window=bell), call(draw(9), 4, 2, pad_mode="replicate", return_complex=False),
        call(draw(2, 9), 5, win_length=3, pad_mode="circular", return_complex=True),
        call(draw(12), 8, 2, 6, bell, center=False, align_to_window=True, return_complex=True),
    ]  # fmt: skip


@operation(samples=_stft_samples, unclaimed=COMPOSED)
def stft(
    input: Any, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Any = None,
    center: Truth = True, pad_mode: str = "reflect", normalized: bool = False, onesided: bool | None = None,
    return_complex: bool | None = None, align_to_window: bool | None = None,
) -> Any:  # fmt: skip
    """The spectrum of frames of n_fft points, one every hop_length: frequencies by frames.

    >>> import pellucid as torch
    >>> torch.stft(torch.ones(8), 4, window=torch.ones(4), center=False, return_complex=True).shape
    torch.Size([3, 5])
    """
    hop, length = n_fft // 4 if hop_length is None else hop_length, n_fft if win_length is None else win_length
    if center and align_to_window is not None:
        raise refusal(RuntimeError, "stft align_to_window should only be set when center = false")
    complex_result = kind_of(input) == "c" or (window is not None and kind_of(window) == "c")
    if return_complex is None and not complex_result:
        what = "stft requires the return_complex parameter be given for real inputs"
        raise refusal(RuntimeError, what, try_="return_complex=True")
    signal = _padded(input, n_fft // 2, pad_mode) if center and input.ndim and n_fft > 0 else input
    frames = _frames(signal, n_fft, hop, length, window, bool(align_to_window))
    spectrum = transpose(_spectrum(frames, "ortho" if normalized else "backward", onesided), -1, -2)
    return spectrum if return_complex or return_complex is None else view_as_real_row(spectrum)


def _frames(signal: Any, n_fft: int, hop: int, win_length: int, window: Any, align: bool) -> Any:
    """The frames of a signal, weighted by the window."""
    expect(kind_of(signal) not in "biu", "stft: expected a tensor of floating point or complex values")
    expect(signal.ndim in (1, 2), "stft: expected a 1D or 2D tensor")
    n = signal.shape[-1]
    expect(0 < n_fft <= n, f"stft: expected 0 < n_fft < {n}, but got n_fft={n_fft}")
    expect(hop > 0, f"stft: expected hop_length > 0, but got hop_length={hop}")
    what = f"stft: expected a 1D window tensor of size equal to win_length={win_length}"
    _check_window(window, win_length, n_fft, what)
    if signal.array.dtype.itemsize == 2:
        raise refusal(RuntimeError, f"stft: the Fourier transform doesn't support tensors of type: {name_of(signal)}")
    if align:  # the first window, not the first frame, begins with the signal
        signal = _within_zeros(signal, (n_fft - win_length) // 2, n + n_fft - win_length)
    weights = _window(window, win_length, n_fft, signal)
    frames = unfold_row(signal, signal.ndim - 1, n_fft, hop)
    return frames if weights is None else frames * weights


def _spectrum(frames: Any, norm: str, onesided: bool | None) -> Any:
    last = (frames.ndim - 1,)
    if kind_of(frames) == "c":
        expect(not onesided, "Cannot have onesided output if window or input is complex")
        return fft_c2c_row(frames, last, norm, False)
    return fft_real_row(frames, last, norm, False) if onesided is False else fft_r2c_row(frames, last, norm)


# --- istft


def _istft_samples(draw: Draw) -> list[Sample]:
    bell = draw(6, low=0.5, high=1.5)
    return [
        call(draw.complex(4, 5), 6), call(draw.complex(2, 4, 5), 6, 2, 6, bell),
        call(draw.complex(4, 5), 6, window=bell, normalized=True, length=5),
        call(draw.complex(5, 4), 8, 2, 6, bell, center=True, length=9),
        call(draw.complex(6, 5), 6, window=bell, onesided=False, return_complex=True),
        call(draw.complex(6, 5), 6, 3, window=bell, onesided=False),
        call(draw.complex(4, 5), 6, 2, window=bell, center=False),
        call(draw.complex(1, 4, 3), 6, window=bell, length=20),
    ]  # fmt: skip


@operation(samples=_istft_samples, unclaimed=COMPOSED)
def istft(
    input: Any, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Any = None,
    center: bool = True, normalized: bool = False, onesided: bool | None = None, length: int | None = None,
    return_complex: bool = False,
) -> Any:  # fmt: skip
    """The signal that has this short-time spectrum: the inverse of stft.

    >>> import pellucid as torch
    >>> x = torch.arange(8.0)
    >>> spectrum = torch.stft(x, 4, window=torch.ones(4), return_complex=True)
    >>> torch.istft(spectrum, 4, window=torch.ones(4))
    tensor([0., 1., 2., 3., 4., 5., 6., 7.])
    """
    hop, width = n_fft // 4 if hop_length is None else hop_length, n_fft if win_length is None else win_length
    half = _check_spectrum(input, n_fft, onesided)
    expect(0 < hop <= width, "istft: expected 0 < hop_length <= win_length")
    what = "istft: Invalid window shape. window has to be 1D and length of `win_length`"
    _check_window(window, width, n_fft, what)
    weights = _window(window, width, n_fft, input)
    norm, complex_window = "ortho" if normalized else "backward", window is not None and kind_of(window) == "c"
    expect(return_complex or not complex_window, "Complex windows are incompatible with return_complex=False")
    frames = _signals(transpose(input, -1, -2), n_fft, norm, half, return_complex)
    total, start = n_fft + hop * (input.shape[-1] - 1), n_fft // 2 if center else 0
    stop = start + length if length is not None else total - start
    signal = _overlapped(frames, weights, hop, start, min(stop, total))
    missing = max(stop, total) - total
    return signal if not missing else fit_row(signal, (*signal.shape[:-1], signal.shape[-1] + missing))


def _check_spectrum(input: Any, n_fft: int, onesided: bool | None) -> bool:
    """Whether only half of the spectrum is given."""
    expect(kind_of(input) == "c", "istft requires a complex-valued input tensor matching the output from stft")
    if input.ndim < 2:
        raise refusal(IndexError, "istft: expected frequencies by frames", f"the tensor has {input.ndim} dimensions")
    expect(0 not in input.shape, "istft: input tensor cannot be empty.")
    expect(input.ndim <= 3, f"istft: expected a tensor with 3 or 4 dimensions, but got {input.ndim + 1}")
    size = input.shape[-2]
    half = size != n_fft if onesided is None else onesided
    wanted, name = (n_fft // 2 + 1, "n_fft / 2 + 1") if half else (n_fft, "n_fft")
    what = f"istft: expected the frequency dimension of the input tensor to match {name} when onesided={half}, but got"
    expect(size == wanted, f"{what} {size}")
    return half


def _signals(spectrum: Any, n_fft: int, norm: str, half: bool, return_complex: bool) -> Any:
    """The frames with these spectra."""
    last = (spectrum.ndim - 1,)
    if return_complex:
        expect(not half, "Cannot have onesided output if window or input is complex")
        return fft_c2c_row(spectrum, last, norm, True)
    if not half:
        spectrum = slice_row(spectrum, (..., slice(0, n_fft // 2 + 1)))
    return fft_c2r_row(spectrum, last, norm, n_fft)


def _overlapped(frames: Any, weights: Any, hop: int, start: int, stop: int) -> Any:
    """The weighted frames added up, divided by the sum of the squared weights, from start to stop."""
    *front, count, n_fft = frames.shape
    total = n_fft + hop * (count - 1)
    part = (..., slice(start, stop))
    if weights is None:
        weights = wrap(np.ones(n_fft, np.dtype(frames.array.dtype).type(0).real.dtype))
    signal = overlap_add_row(frames * weights, (*front, total), len(front), n_fft, hop)
    squares = expand_row(weights * weights, (count, n_fft))
    envelope = slice_row(overlap_add_row(squares, (total,), 0, n_fft, hop), part)
    _check_envelope(envelope)
    return slice_row(signal, part) / envelope


def _check_envelope(envelope: Tensor) -> None:
    values = envelope.array
    expect(bool(values.size), "istft: no part of the signal is left: Expected reduction dim to be specified")
    if type(values) is ndarray and np.minimum.reduce(np.abs(values)) < 1e-11:
        what = "istft: window overlap add min: 1"
        why = "somewhere the windows add up to zero, and what they hid cannot be restored"
        raise refusal(RuntimeError, what, why, "a shorter hop_length, center=True, or a window without zeros")
