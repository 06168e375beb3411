"""Equal, or nearly: with what differs in the message."""

from typing import Any

import numpy as np

from pellucid.transforms.differences import reals


def assert_close(ours: Any, theirs: Any, rtol: float, what: str, atol: float | None = None) -> None:
    """Two arrays have equal shape and nearly equal values; NaN equals NaN."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.shape == theirs.shape, f"{what}: shape {ours.shape}, expected {theirs.shape}"
    if ours.dtype.kind in "biu" or theirs.dtype.kind in "biu":
        assert np.array_equal(ours, theirs), f"{what}: {ours!r}, expected {theirs!r}"
        return
    a, b = reals(ours), reals(theirs)
    finite = np.abs(b[np.isfinite(b)])
    atol = rtol * (1.0 + float(finite.max(initial=0.0))) if atol is None else atol
    if not np.allclose(a, b, rtol, atol, equal_nan=True):
        with np.errstate(all="ignore"):
            worst = float(np.nanmax(np.abs(a - b)))
        raise AssertionError(f"{what}: off by {worst:.3g}: {short(ours)}, expected {short(theirs)}")


def short(array: Any) -> str:
    """An array on one line."""
    return np.array2string(np.asarray(array), precision=5, threshold=8, edgeitems=3).replace("\n", "")


def assert_slope(analytic: float, numeric: float, scale: float, what: str) -> None:
    """A directional derivative and its difference quotient agree to the tolerance of trust.md's T1."""
    bound = 1e-6 + 1e-5 * scale  # NaN is never within it
    assert abs(analytic - numeric) <= bound, f"{what}: {analytic:.10g}, by differences {numeric:.10g}"
