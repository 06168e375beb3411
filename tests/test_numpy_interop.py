"""Tensors among NumPy's functions and other libraries' arrays: the same values as NumPy's, and still differentiable."""

import array as python_arrays
import gc
import math
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import overrides

import pellucid as pl
from pellucid.autograd import gradcheck
from pellucid.core import aliasing
from pellucid.errors import CaptureError, InplaceError
from pellucid.interop import functions, ufuncs
from pellucid.interop.vocabulary import NAMED
from pellucid.ops.operation import OPERATIONS, Draw

# --- the inputs, as NumPy has them; a test makes tensors of them

_random = np.random.default_rng(7)
_square = _random.uniform(-1, 1, (4, 4))
INPUTS = {
    "a": (_random.permutation(12) * 0.287 - 1.613).reshape(3, 4),
    "b": (_random.permutation(12) * 0.313 - 1.71).reshape(3, 4),
    "c": (_random.permutation(24) * 0.13 - 1.5).reshape(2, 3, 4),
    "p": (_random.permutation(12) * 0.07 + 0.1).reshape(3, 4),  # in (0, 1)
    "v": np.array([0.3, -1.2, 2.5, 0.9]),
    "w": np.array([1.7, 0.4, -0.6, 1.1]),
    "q": np.array([0.23, 0.71]),
    "m": _square + 3 * np.eye(4),
    "h": _square @ _square.T + np.eye(4),  # positive definite
    "r": _random.uniform(-1, 1, (5, 3)),
    "t": np.array([[0.5, math.nan, 1.5], [math.nan, 2.0, -1.0]]),
    "z": _random.uniform(-1, 1, (3, 4)) + 1j * _random.uniform(-1, 1, (3, 4)),
    "i": np.array([[3, 1, 2, 2], [0, 1, 5, 3], [7, 4, 1, 1]]),
    "j": np.array([2, 0, 1]),
    "k": np.array([[True, False, True, False], [False, True, True, False], [True, True, False, False]]),
}
# Cases whose result is not differentiable: integers, truth, sizes, dtypes.
FLAT = {"i", "j", "k"}

REDUCTIONS = """
np.sum(a) | np.sum(a, axis=0) | np.sum(a, 1) | np.sum(a, axis=(0, 1), keepdims=True) | np.sum(c, axis=(0, -1))
np.sum(a, axis=()) | np.sum(a, initial=2.5) | np.sum(a, axis=0, where=k) | np.sum(i) | np.sum(k, axis=0)
np.sum(c, -2) | np.sum(a, 0, np.float32) | np.sum(i, dtype=float) | np.prod(a) | np.prod(a, axis=1)
np.prod(c, axis=(0, 2), keepdims=True) | np.prod(a, where=k, axis=0) | np.prod(v, initial=2) | np.mean(a)
np.mean(a, axis=1, keepdims=True) | np.mean(i, dtype=float) | np.mean(a, where=k) | np.mean(c, (0, 2)) | np.var(a)
np.var(a, axis=0, ddof=1) | np.std(a, axis=1, keepdims=True) | np.std(a, 0, None, None, 1) | np.std(c, correction=1)
np.average(a) | np.average(a, axis=1, weights=w) | np.average(v, weights=w)
np.average(a, axis=0, weights=p, returned=True) | np.max(a) | np.max(a, axis=0) | np.max(c, axis=(0, 2), keepdims=True)
np.max(v, initial=1.0) | np.amax(a, 1) | np.max(i) | np.min(a) | np.min(a, axis=-1) | np.amin(a, axis=0, keepdims=True)
np.min(v, initial=-9.0, where=v > 0) | np.ptp(a, axis=1) | np.argmax(a) | np.argmax(a, axis=1)
np.argmin(a, axis=0, keepdims=True) | np.argmin(a) | np.all(k) | np.all(a, axis=0) | np.any(k, axis=1, keepdims=True)
np.any(k, where=k) | np.count_nonzero(i, axis=1) | np.median(a) | np.median(a, axis=1)
np.median(c, axis=(0, 2), keepdims=True) | np.quantile(a, 0.3) | np.quantile(a, q, axis=0)
np.quantile(c, q, axis=(0, 1), keepdims=True) | np.percentile(a, 30, axis=1) | np.percentile(v, [10, 90]) | np.ptp(v)
np.quantile(v, 0.4, method="lower") | np.quantile(a, q[0], axis=1) | np.nansum(t) | np.nansum(t, axis=0)
np.nanprod(t, axis=1) | np.nanmean(t, axis=1) | np.nanvar(t, axis=1) | np.nanstd(t, 1, ddof=1) | np.nanmax(t)
np.nanmin(t, axis=0) | np.nanmedian(t) | np.nanquantile(t, 0.3, axis=1) | np.nanpercentile(t, 40) | np.nanmax(i)
np.nanargmax(t, axis=1) | np.nanargmin(t) | np.nancumsum(t, axis=1) | np.nancumprod(t) | np.cumsum(a)
np.cumsum(a, axis=1) | np.cumprod(a, axis=0) | np.cumprod(v) | np.cumsum(i, axis=0) | np.cumulative_sum(v)
np.cumulative_sum(a, axis=1, include_initial=True) | np.cumulative_prod(v, include_initial=True) | np.diff(a)
np.diff(a, n=2, axis=0) | np.diff(v, prepend=0.5) | np.diff(a, append=v[:3, None], axis=1) | np.trapezoid(v)
np.trapezoid(a, dx=0.5, axis=0) | np.trapezoid(a, v) | np.gradient(v) | np.gradient(a, axis=1) | np.gradient(a)
np.gradient(v, 0.5) | np.allclose(a, a + 1e-12) | np.allclose(a, b) | np.isclose(a, np.float32(1.0))
np.isclose(t, t, equal_nan=True) | np.array_equal(a, a) | np.array_equal(a, v) | np.array_equal(t, t, equal_nan=True)
np.array_equal(t, t)
"""
SHAPES = """
np.shape(a) | np.ndim(c) | np.size(c) | np.size(c, 1) | np.reshape(a, (4, 3)) | np.reshape(a, -1)
np.reshape(a, (2, -1), order="F") | np.reshape(a, (4, 3), copy=True) | np.ravel(a) | np.ravel(a, order="F")
np.transpose(a) | np.transpose(c, (2, 0, 1)) | np.permute_dims(c, (1, 0, 2)) | np.matrix_transpose(c)
np.moveaxis(c, 0, -1) | np.moveaxis(c, [0, 1], [2, 0]) | np.rollaxis(c, 2) | np.rollaxis(c, 0, 3)
np.swapaxes(c, 0, 2) | np.expand_dims(a, 0) | np.expand_dims(a, (0, -1)) | np.squeeze(a[:1])
np.squeeze(a[None, :, :1], axis=(0, 2)) | np.squeeze(a[:1], 0) | np.atleast_1d(v[0]) | np.atleast_2d(v)
np.atleast_3d(a) | np.atleast_2d(v, a) | np.flip(c) | np.flip(a, 0) | np.flip(c, (0, 2)) | np.fliplr(a) | np.flipud(a)
np.rot90(a) | np.rot90(c, 2, axes=(1, 2)) | np.roll(a, 2) | np.roll(a, 1, axis=0) | np.roll(a, (1, 2), axis=(0, 1))
np.roll(c, 1, axis=(0, 2)) | np.broadcast_to(v, (3, 4)) | np.broadcast_to(v[0], 3) | np.broadcast_arrays(v, a)
np.tile(v, 2) | np.tile(a, (2, 1, 2)) | np.repeat(a, 2) | np.repeat(a, 3, axis=1) | np.repeat(v, [1, 0, 2, 1])
np.meshgrid(v, w) | np.meshgrid(v, q, indexing="ij") | np.meshgrid(v, q, sparse=True) | np.meshgrid(v, q, w)
np.concatenate([a, b]) | np.concatenate([a, b], axis=1) | np.concatenate((v, a), axis=None) | np.concat([a, i], axis=1)
np.concatenate([v, [5.0, 6.0]]) | np.concatenate([v, w], dtype=np.float32) | np.stack([v, w])
np.stack([v, w, [1, 2, 3, 4]], axis=1) | np.hstack([v, w]) | np.vstack([v, w]) | np.dstack([a, b])
np.column_stack([v, w]) | np.block([[a, b], [b, a]]) | np.block([v, w]) | np.block([[a], [v]]) | np.append(v, w)
np.append(a, b, axis=0) | np.delete(a, 1, axis=0) | np.delete(v, [0, 2]) | np.delete(a, slice(0, 2), 1)
np.split(a, 2, axis=1) | np.split(v, [1, 3]) | np.array_split(v, 3) | np.hsplit(a, 2) | np.vsplit(a, 3)
np.dsplit(c, 2) | np.hsplit(v, 2) | np.unstack(a) | np.unstack(c, axis=1) | np.pad(a, 1)
np.pad(v, (2, 1), mode="edge") | np.pad(a, ((1, 2), (0, 3)), "reflect") | np.pad(v, 2, "wrap")
np.pad(v, 2, "symmetric") | np.pad(a, ((0, 1), (2, 0)), constant_values=7.0)
np.pad(a, 1, constant_values=((1, 2), (3, 4))) | np.diag(v) | np.diag(a, 1) | np.diagflat(v, -1) | np.diagonal(a)
np.diagonal(c, 1, 1, 2) | np.tril(a) | np.triu(a, 1) | np.copy(a) | np.astype(a, np.float32) | np.zeros_like(a)
np.ones_like(a, dtype=int) | np.full_like(a, 2.5) | np.full_like(a, v) | np.zeros_like(a, shape=(2,))
np.empty_like(a).shape | np.linspace(v[0], v[1], 4) | np.linspace(v, w, 3, axis=1)
np.linspace(v, 2.0, 5, endpoint=False) | np.linspace(q[0], 1, 1) | np.logspace(q[0], q[1], 3)
np.lib.stride_tricks.sliding_window_view(a, (2, 3))
"""
ELEMENTS = """
np.where(k, a, b) | np.where(a > 0, a, 0.0) | np.where(k, 1, a) | np.where(k) | np.where(i, a, b)
np.select([a > 1, a > 0], [a, b], 0.0) | np.select([a > 1], [a], 1.1) | np.clip(a, -1, 1) | np.clip(a, None, 0.5)
np.clip(a, v, 2.0) | np.clip(1.1, v, 3.3) | np.clip(v, [0.1] * len(v), None) | np.where(v > 0, [0.1] * len(v), v)
np.polyval(v, 1.1) | np.polyval([1.1, 0.3], v) | np.append(v, 1.1) | np.append(1.1, v) | np.concatenate([v, [1.1, 0.3]])
np.hstack([v, 1.1]) | np.vstack([v, [0.1] * len(v)]) | np.column_stack([v, [0.1] * len(v)])
np.pad(v, 1, constant_values=1.1) | np.diff(v, prepend=1.1) | np.diff(v, append=[1.1, 0.7])
np.trapezoid([0.1] * len(v), v) | np.transpose(v, -1) | np.roll(v, 2, ()) | np.roll(a, (1, 4)) | np.roll(a, (1, 2), 0)
np.roll(a, (1, 2), (0, 1)) | np.repeat(v[0], 3, axis=0) | np.repeat(v[0], (2,), axis=0)
np.average(v, weights=[0.3] * len(v)) | np.average([0.7] * len(q), weights=q) | np.multiply.outer(v, 1.1)
np.gradient(v, np.arange(len(v)) * 1.1) | np.subtract.outer([1.1, 0.3], v)
np.clip(a, v - 5, v + 5) | np.clip(a, min=-0.5) | np.extract(k, a) | np.compress([True, False, True], a, axis=0)
np.compress(v > 0, v) | np.nonzero(i) | np.flatnonzero(i) | np.argwhere(k) | np.take(a, [0, 5]) | np.take(a, j, axis=1)
np.take(a, 1, axis=0) | np.take(a, [[0, 1], [2, -1]], axis=-1) | np.take_along_axis(a, np.argsort(b, axis=1), axis=1)
np.take_along_axis(a, j[:, None] - 3, 1) | np.sort(a) | np.sort(a, axis=0) | np.sort(a, axis=None) | np.argsort(a)
np.argsort(a, axis=0) | np.partition(v, 1)[1] | np.argpartition(v, 1)[1] | np.searchsorted(np.sort(v), w)
np.searchsorted(np.sort(v), 0.5, side="right") | np.interp(w, np.sort(v), q[0] + v)
np.interp(w, [0.0, 1.0, 3.0], v[:3], left=-1.0) | np.interp(0.7, [0, 1], q) | np.unique(i)
np.unique(i, return_inverse=True, return_counts=True) | np.unique(i, return_index=True) | np.unique_all(i)
np.sort(np.unique_values(i)) | np.unique_counts(i) | np.unique_inverse(i) | np.unique(np.round(a)) | np.isin(i, [1, 2])
np.isin(i, j, invert=True) | np.bincount(j) | np.bincount(j, weights=v[:3]) | np.bincount(j, minlength=5)
np.histogram(a) | np.histogram(a, 4, range=(-1, 1)) | np.histogram(a, [-1, 0, 2], density=True) | np.round(a, 1)
np.around(a) | np.fix(a) | np.nan_to_num(t) | np.nan_to_num(t, nan=3.0) | np.real(z) | np.imag(z) | np.real(a)
np.imag(a) | np.angle(z) | np.angle(z, deg=True) | np.sinc(a) | np.i0(a) | np.isposinf(a) | np.isneginf(a)
np.isreal(z) | np.iscomplex(a) | np.unwrap(v * 4) | np.unwrap(a * 5, axis=0) | np.polyval(v, q)
np.polyval([1.0, 2.0], a) | np.vander(v) | np.vander(q, 3, increasing=True) | np.result_type(a, 1.0)
np.can_cast(a, np.float32) | np.can_cast(i, np.float64) | np.iscomplexobj(z) | np.isrealobj(a)
"""
PRODUCTS = """
np.dot(v, w) | np.dot(a, v) | np.dot(a, b.T) | np.dot(c, m) | np.dot(c, v) | np.dot(a, 2.0) | np.dot(v, m)
np.inner(a, b) | np.inner(v, w) | np.outer(v, q) | np.vdot(v, w) | np.vdot(z, z) | np.tensordot(a, b)
np.tensordot(a, b, axes=([0], [0])) | np.tensordot(c, m, axes=(2, 0)) | np.tensordot(v, q, 0)
np.einsum("ij,ij->i", a, b) | np.einsum("ij,kj", a, b, optimize=True) | np.einsum("...i,i", c, v)
np.einsum(a, (0, 1), (1, 0)) | np.einsum(c, (..., 0), v, (0,), (...,)) | np.einsum(a, [0, 1], b, [2, 1], [0, 2])
np.einsum("ii", m) | np.einsum(a, [0, 1], v, [1]) | np.kron(q, v)
np.kron(m, q) | np.cross(r, np.flip(r, 0)) | np.cross(r[0], r[1:3]) | np.cross(r.T, np.flip(r, 0).T, axis=0)
np.trace(a) | np.trace(c, 1, 1, 2) | np.convolve(v, q) | np.convolve(v, q, "same") | np.convolve(q, v, "valid")
np.correlate(v, q) | np.correlate(q, v, "full") | np.correlate(v, q, "same") | np.cov(a) | np.cov(a, rowvar=False)
np.cov(v, w) | np.cov(v, bias=True) | np.corrcoef(a) | np.corrcoef(v, w) | np.linalg.inv(m) | np.linalg.det(m)
np.linalg.slogdet(m) | np.linalg.solve(m, v) | np.linalg.solve(m, a.T) | np.linalg.cholesky(h + h.T)
np.linalg.cholesky(h + h.T, upper=True) | np.linalg.eigvalsh(h + h.T) | np.linalg.eigh(h + h.T)[0]
np.linalg.svd(r, compute_uv=False) | np.linalg.svdvals(r) | np.abs(np.linalg.svd(r, full_matrices=False)[0])
np.abs(np.linalg.qr(r)[1]) | np.abs(np.linalg.qr(r, mode="r")) | np.linalg.pinv(r) | np.linalg.matrix_power(m, 3)
np.linalg.matrix_rank(m) | np.linalg.cond(m) | np.linalg.norm(a) | np.linalg.norm(v, 1) | np.linalg.norm(a, axis=1)
np.linalg.norm(a, "fro", axis=(0, 1), keepdims=True) | np.linalg.norm(m, 2) | np.linalg.vector_norm(a, axis=0)
np.linalg.vector_norm(a, ord=3) | np.linalg.matrix_norm(c) | np.linalg.multi_dot([a, m, v])
np.linalg.tensorinv(m.reshape(2, 2, 4), 2) | np.linalg.tensorsolve(m.reshape(2, 2, 4), a[:2, :2])
np.linalg.lstsq(r, w[[0, 1, 2, 3, 0]])[0] | np.linalg.matmul(a, m) | np.linalg.vecdot(a, b) | np.linalg.outer(v, w)
np.linalg.cross(r, np.flip(r, 0)) | np.linalg.trace(c) | np.linalg.diagonal(c, offset=1) | np.linalg.tensordot(a, b)
np.linalg.matrix_transpose(c) | np.sort(np.abs(np.linalg.eigvals(h))) | np.sort(np.abs(np.linalg.eig(h)[0]))
np.matmul(a, v) | np.vecdot(a, b) | np.vecdot(a, b, axis=0) | np.matvec(c, v) | np.vecmat(v, m)
np.linalg.solve(m[None], v) | np.fft.fft(v) | np.fft.ifft(z, axis=0) | np.fft.rfft(a, n=3) | np.fft.irfft(z)
np.fft.fft2(a) | np.fft.ifft2(z, norm="ortho") | np.fft.fftn(c) | np.fft.ifftn(z) | np.fft.rfftn(c, axes=(0, 2))
np.fft.hfft(z[0]) | np.fft.ihfft(v) | np.fft.fftshift(a) | np.fft.ifftshift(v) | np.fft.irfftn(z) | np.fft.rfft2(a)
np.fft.irfft2(z)
"""
UFUNCS = """
np.add(a, b) | np.subtract(a, 2) | np.multiply(3.0, a) | np.divide(a, p) | np.power(p, a) | np.power(2.0, a)
np.floor_divide(a, 0.7) | np.remainder(a, p) | np.fmod(a, 0.7) | np.divmod(a, 0.7) | np.negative(a) | np.positive(a)
np.absolute(a) | np.fabs(a) | np.rint(a) | np.sign(a) | np.conjugate(z) | np.exp(a) | np.exp2(a) | np.expm1(a)
np.log(p) | np.log2(p) | np.log10(p) | np.log1p(p) | np.sqrt(p) | np.square(a) | np.cbrt(a) | np.reciprocal(p)
np.sin(a) | np.cos(a) | np.tan(a) | np.arcsin(p - 0.4) | np.arccos(p - 0.4) | np.arctan(a) | np.arctan2(a, p)
np.hypot(a, b) | np.sinh(a) | np.cosh(a) | np.tanh(a) | np.arcsinh(a) | np.arccosh(p + 1.1) | np.arctanh(p - 0.4)
np.degrees(a) | np.radians(a) | np.deg2rad(a) | np.rad2deg(a) | np.heaviside(a, 0.5) | np.maximum(a, b)
np.minimum(a, 0.1) | np.fmax(a, t[0, 0]) | np.fmin(a, b) | np.floor(a) | np.ceil(a) | np.trunc(a) | np.modf(a)
np.copysign(p, a) | np.ldexp(a, i) | np.logaddexp(a, b) | np.logaddexp2(a, b) | np.float_power(p, 3)
np.nextafter(a, b) | np.isnan(t) | np.isinf(a) | np.isfinite(t) | np.signbit(a) | np.equal(a, b) | np.not_equal(a, a)
np.less(a, b) | np.less_equal(a, 0) | np.greater(0, a) | np.greater_equal(a, b) | np.logical_and(k, i)
np.logical_or(k, i) | np.logical_xor(k, i) | np.logical_not(a) | np.bitwise_and(i, 3) | np.bitwise_or(i, i.T[:3, :1])
np.bitwise_xor(i, 1) | np.invert(i) | np.invert(k) | np.left_shift(i, 2) | np.right_shift(i, 1) | np.gcd(i, 4)
np.lcm(i, 3) | np.frexp(p) | np.add.reduce(a) | np.add.reduce(c, axis=(0, 1))
np.add.reduce(a, axis=None, keepdims=True) | np.multiply.reduce(a, 1) | np.maximum.reduce(a)
np.minimum.reduce(a, axis=1) | np.logical_and.reduce(k) | np.logical_or.reduce(k, 1) | np.logaddexp.reduce(a)
np.add.reduce(a, 0, where=k) | np.add.reduce(v, initial=1.0) | np.add.accumulate(a) | np.multiply.accumulate(a, 1)
np.maximum.accumulate(v) | np.minimum.accumulate(a, axis=1) | np.logaddexp.accumulate(v) | np.multiply.outer(v, q)
np.subtract.outer(v, a) | np.maximum.outer(v, [0.0, 1.0]) | np.add(a, [1.0, 2.0, 3.0, 4.0])
np.add(a, b, dtype=np.float32) | np.sqrt(i + 0.0)
"""


def cases(text):
    return [case.strip() for line in text.strip().splitlines() for case in line.split(" | ")]


def tensors(case, requires_grad=False):
    made = {name: pl.tensor(INPUTS[name]) for name in compile(case, case, "eval").co_names if name in INPUTS}
    for name, tensor in made.items():
        if requires_grad and name not in FLAT:
            tensor.requires_grad_()
    return made


def run(case, names):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return eval(case, {"np": np, **names})


def flattened(value):
    return [part for item in value for part in flattened(item)] if isinstance(value, (tuple, list)) else [value]


def same(ours, theirs):
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        if isinstance(other, (np.ndarray, np.generic)):
            assert isinstance(one, pl.Tensor), type(one)
            one = one.detach().numpy()
            assert one.shape == np.shape(other)
            tolerance = 1e-6 if one.dtype == np.float32 else 1e-12
            np.testing.assert_allclose(one, other, tolerance, tolerance)
        else:
            assert one == other


ALL = [case for text in (UFUNCS, REDUCTIONS, SHAPES, ELEMENTS, PRODUCTS) for case in cases(text)]


@pytest.mark.filterwarnings("ignore:numpy.fix is deprecated:DeprecationWarning")  # NumPy 2.5
@pytest.mark.parametrize("case", ALL)
def test_values_are_numpys(case):
    same(flattened(run(case, tensors(case))), flattened(run(case, INPUTS)))


# Their floating-point results do not depend on their tensors, or in steps, or PyTorch has no derivative either.
FLAT_CASES = (
    "np.zeros_like", "np.ones_like", "np.full_like(a, 2.5)", "np.nextafter", "np.floor_divide", "np.divmod",
    "np.heaviside", "np.bincount", "np.unique", "np.histogram", "np.frexp",
)  # fmt: skip


@pytest.mark.parametrize("case", [case for case in ALL if not case.startswith(FLAT_CASES) and "float32" not in case])
def test_results_are_differentiable(case):
    names = tensors(case, requires_grad=True)
    inputs = [tensor for tensor in names.values() if tensor.requires_grad]

    def differentiable(*_):
        results = [part for part in flattened(run(case, names)) if isinstance(part, pl.Tensor)]
        return tuple(part for part in results if part.is_floating_point() or part.is_complex())

    if inputs and (results := differentiable()):
        assert all(part.requires_grad for part in results)
        assert gradcheck(differentiable, inputs)


def test_every_function_has_a_case():
    text = "\n".join([UFUNCS, REDUCTIONS, SHAPES, ELEMENTS, PRODUCTS])
    with_like = {
        "array",
        "asarray",
        "asanyarray",
        "ascontiguousarray",
        "zeros",
        "empty",
        "ones",
        "full",
        "arange",
        "eye",
        "identity",
    }
    elsewhere = with_like | {"copyto", "put_along_axis"}
    assert [name for name in NAMED if f"np.{name}(" not in text and name not in elsewhere] == []
    assert [name for name in ufuncs.SAME.split() if f"np.{name}(" not in text] == ["sgn"]


@pytest.mark.parametrize(
    "case", ["np.float32(2) * x", "2 ** x", "np.arange(3) - x", "np.array(2.5) / x", "np.int64(3) + x"]
)
def test_dtypes_meet_as_pytorchs(case, torch):
    """NumPy's scalars count as Python's numbers, its arrays as tensors: the same result type whichever side."""
    x = [1.0, 2.0, 3.0]
    for kind in ("float32", "float16", "int32"):
        ours = eval(case, {"np": np, "x": pl.tensor(x).to(getattr(pl, kind))})
        array = eval(case.split(" ")[0], {"np": np})
        other = torch.from_numpy(array) if isinstance(array, np.ndarray) else array
        operator = {"*": torch.mul, "**": torch.pow, "-": torch.sub, "/": torch.div, "+": torch.add}[case.split(" ")[1]]
        theirs = operator(torch.tensor(x).to(getattr(torch, kind)), other)
        assert isinstance(ours, pl.Tensor) and str(ours.dtype) == str(theirs.dtype)


# --- operators

OPERATORS = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b,
    "//": lambda a, b: a // b, "%": lambda a, b: a % b, "**": lambda a, b: a**b, "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b, "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}  # fmt: skip
KINDS = [np.float32, np.float64, np.int32, np.int64, np.bool_]


@st.composite
def pairs(draw):
    """Two arrays whose shapes broadcast, with small numbers in them: both sides compute them exactly."""
    shapes = draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3, min_side=0)).input_shapes
    return [
        draw(hnp.arrays(np.int64, shape, elements=st.integers(1, 3))).astype(draw(st.sampled_from(KINDS[:4])))
        for shape in shapes
    ]


@given(pairs(), st.sampled_from(sorted(OPERATORS)))
def test_an_array_beside_a_tensor_counts_as_a_tensor(pair, symbol):
    first, second = pair
    operator = OPERATORS[symbol]
    expected = operator(pl.tensor(first), pl.tensor(second))
    for result in (operator(first, pl.tensor(second)), operator(pl.tensor(first), second)):
        assert isinstance(result, pl.Tensor)
        assert result.dtype is expected.dtype and result.shape == expected.shape
        assert pl.equal(result, expected)


@given(hnp.arrays(np.float64, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0), elements=st.floats(0.125, 0.875)))
def test_unary_ufuncs_are_the_operations(array):
    x = pl.tensor(array, requires_grad=True)
    for ufunc in (np.sin, np.exp, np.log, np.sqrt, np.tanh, np.arcsin, np.square, np.negative, np.floor, np.log1p):
        ours, method = ufunc(x), getattr(x, ufuncs.PATHS[ufunc])()
        assert pl.equal(ours, method) and type(ours.grad_fn) is type(method.grad_fn)
        np.testing.assert_allclose(ours.detach().numpy(), ufunc(array), 1e-14)


@given(hnp.arrays(np.float64, hnp.array_shapes(max_dims=4, max_side=4), elements=st.floats(-3, 3)), st.data())
def test_reductions_along_any_axes(array, data):
    axes = data.draw(st.none() | st.lists(st.integers(0, array.ndim - 1), unique=True).map(tuple))
    signed = None if axes is None else tuple(i - array.ndim * data.draw(st.booleans()) for i in axes)
    keepdims = data.draw(st.booleans())
    x = pl.tensor(array)
    for function in (np.sum, np.prod, np.mean, np.max, np.min, np.any, np.all, np.std, np.median):
        ours, theirs = function(x, axis=signed, keepdims=keepdims), function(array, axis=signed, keepdims=keepdims)
        assert tuple(ours.shape) == np.shape(theirs)
        np.testing.assert_allclose(ours.numpy(), theirs, 1e-9, 1e-12)


def test_operators_between_scalars_arrays_and_tensors():
    x = pl.tensor([1.0, 2.0], requires_grad=True)
    for result in (np.float64(2) * x, x * np.float64(2), np.array(2.0) * x, np.full(2, 2, np.float32) * x):
        assert isinstance(result, pl.Tensor) and result.dtype is pl.float32
        (slope,) = pl.autograd.grad(result.sum(), x)
        assert slope.tolist() == [2.0, 2.0]
    assert isinstance(np.ones((3, 2)) @ x, pl.Tensor) and (np.ones((3, 2)) @ x).requires_grad
    assert [part.tolist() for part in divmod(np.array([5.0, 7.0]), x.detach())] == [[5, 3], [0, 1]]
    assert bool(np.array(1) == pl.tensor(1)) and not np.float32(1) > pl.tensor(1)
    assert (np.ones(2) == x.detach()).tolist() == [True, False]


def test_the_node_is_on_the_users_line():
    x = pl.ones(2, requires_grad=True)
    y = np.sum(np.sin(x))  # this line
    assert y.grad_fn.place.source == "y = np.sum(np.sin(x))  # this line"
    assert y.grad_fn.next_functions[0][0].place == y.grad_fn.place


# --- out, where, dtype


def test_out_into_a_tensor_is_recorded():
    x = pl.tensor([1.0, 2.0], requires_grad=True)
    target = pl.zeros(2)
    assert np.multiply(x, 3.0, out=target) is target
    target.sum().backward()
    assert target.tolist() == [3, 6] and x.grad.tolist() == [3, 3] and target._version == 1


def test_out_of_a_function_and_of_a_method():
    x = pl.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    target = pl.zeros(2)
    assert np.add.reduce(x, out=target) is target and target.tolist() == [4, 6]
    assert np.sum(x, 1, None, target) is target and target.tolist() == [3, 7] and target.requires_grad
    parts = pl.zeros(2), pl.zeros(2)
    assert np.divmod(x.detach()[1], 2.0, out=parts)[1] is parts[1]
    assert [part.tolist() for part in parts] == [[1, 2], [1, 0]]


def test_out_into_an_array():
    x, array = pl.tensor([1.0, 2.0]), np.zeros(2)
    assert np.add(x, 1, out=array) is array and array.tolist() == [2, 3]
    array += x
    assert isinstance(array, np.ndarray) and array.tolist() == [3, 5]
    np.copyto(array, x)
    assert array.tolist() == [1, 2]


def test_out_where_the_condition_holds():
    x = pl.tensor([1.0, 2.0, 3.0], requires_grad=True)
    target = pl.zeros(3)
    np.exp(x, out=target, where=np.array([True, False, True]))
    target.sum().backward()
    assert target[1] == 0 and x.grad[1] == 0 and pl.equal(x.grad[::2], x.detach()[::2].exp())
    with pytest.raises(TypeError, match=r"torch\.where"):
        np.exp(x, where=np.array([True, False, True]))


def test_a_failing_out_changes_nothing():
    x = pl.ones(2, requires_grad=True)
    array, whole, leaf = np.zeros(2), pl.zeros(2, dtype=pl.int64), pl.zeros(2, requires_grad=True)
    for target, error in ((array, RuntimeError), (whole, RuntimeError), (leaf, RuntimeError), ("text", TypeError)):
        with pytest.raises(error):
            np.add(x, 1, out=target)
    kept = pl.zeros(2)
    with pytest.raises(RuntimeError):
        np.divmod(x.detach(), 2.0, out=(kept, whole))
    with pytest.raises(RuntimeError):
        np.add(x, 1, out=pl.zeros(3))
    assert not array.any() and not whole.any() and not leaf.any() and not kept.any()
    assert leaf.is_leaf and kept._version == 0


def test_writing_functions():
    x, target = pl.tensor([1.0, 2.0, 3.0], requires_grad=True), pl.zeros(3)
    np.copyto(target, x, where=np.array([True, False, True]))
    assert target.tolist() == [1, 0, 3] and target.requires_grad
    target = pl.zeros(2, 2)
    np.put_along_axis(target, np.array([[-1], [0]]), x[:1], 1)
    target.sum().backward()
    assert target.tolist() == [[0, 1], [1, 0]] and x.grad.tolist() == [2, 0, 0]


def test_an_old_value_that_was_written_over_is_caught():
    x = pl.ones(2, requires_grad=True)
    y = x.exp()
    np.add(y, 1, out=y)
    with pytest.raises(InplaceError):
        y.sum().backward()


# --- like=


def test_like_makes_tensors():
    like = pl.ones(1)
    made = [
        np.asarray([1.0, 2.0], like=like), np.array([1], dtype=np.int32, like=like), np.zeros(3, like=like),
        np.ones((2, 2), dtype=np.float64, like=like), np.full(2, 7, like=like), np.arange(3, like=like),
        np.eye(2, 3, k=1, like=like), np.identity(2, like=like), np.empty(2, like=like), np.asanyarray([1], like=like),
        np.ascontiguousarray([1.5], like=like),
    ]  # fmt: skip
    assert all(isinstance(tensor, pl.Tensor) for tensor in made)
    assert made[1].dtype is pl.int32 and made[3].dtype is pl.float64 and made[4].tolist() == [7, 7]
    assert made[6].tolist() == [[0, 1, 0], [0, 0, 1]]


# --- what is not there

UNSUPPORTED = """
np.spacing(x) | np.subtract.reduce(x) | np.add.reduceat(x, [0]) | np.add.at(x, 0, 1) | np.lexsort((x,))
np.apply_along_axis(len, 0, x) | np.sin(x, casting="unsafe") | np.var(x, where=[True, False]) | np.power.accumulate(x)
np.frompyfunc(lambda v: v, 1, 1)(x) | np.pad(x, 1, "median") | np.linalg.qr(x[None], "raw")
np.take(x, 0, mode="clip")
"""


@pytest.mark.parametrize("case", cases(UNSUPPORTED))
def test_a_refusal_says_what_and_names_a_way_out(case):
    x = pl.ones(2, requires_grad=True)
    with pytest.raises(TypeError, match=r"try:   ") as caught:
        eval(case, {"np": np, "x": x})
    text = str(caught.value)
    assert "test_numpy_interop.py" in text or "<string>" in text
    assert "detach().numpy()" in text or "indices" in text


@pytest.mark.parametrize(("name", "rank"), [("hsplit", 1), ("vsplit", 2), ("dsplit", 3)])
def test_a_split_needs_dimensions(name, rank):
    for x in (np.ones((2,) * (rank - 1)), pl.ones((2,) * (rank - 1))):
        with pytest.raises(ValueError, match="only works on arrays"):
            getattr(np, name)(x, 2)


def test_every_other_function_of_numpy_is_refused():
    x = pl.ones(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        there = overrides.get_overridable_numpy_array_functions()
    for function in there:
        name = functions.name_of(function)
        if name.removeprefix("np.") not in NAMED and function not in functions.LOOKING:
            with pytest.raises(TypeError, match=r"detach\(\)\.numpy\(\)"):
                x.__array_function__(function, (pl.Tensor,), (x,), {})


def test_looking_functions_take_the_values(tmp_path):
    x = pl.tensor([1.0, 2.0])
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "x.npz", x=x)
    assert np.load(tmp_path / "x.npy").tolist() == np.load(tmp_path / "x.npz")["x"].tolist() == [1, 2]
    assert np.array2string(x) == "[1. 2.]" and np.shares_memory(x, x.numpy()) and not np.may_share_memory(x, pl.ones(2))
    with pytest.raises(RuntimeError, match=r"detach\(\)\.numpy\(\)"):
        np.save(tmp_path / "y.npy", pl.ones(2, requires_grad=True))


class Foreign:
    """An array of another library, which knows better what to do with a tensor."""

    def __array_ufunc__(self, *_, **__):
        return "mine"

    def __array_function__(self, *_, **__):
        return "mine"


def test_other_libraries_have_their_say():
    x = pl.ones(2)
    assert np.add(x, Foreign()) == np.add(Foreign(), x) == "mine"
    assert np.concatenate([x, Foreign()]) == "mine"
    with pytest.raises(TypeError):
        np.add(x, object())


def test_special_functions_of_scipy_are_recorded():
    special = pytest.importorskip("scipy.special")
    x = pl.tensor([0.25, 0.5], dtype=pl.float64, requires_grad=True)
    for name in ufuncs.SPECIAL.split():
        function = getattr(special, name)
        arguments = [x] * function.nin
        theirs = function(*[np.array([0.25, 0.5])] * function.nin)
        ours = function(*arguments)
        np.testing.assert_allclose(ours.detach().numpy(), theirs, 1e-9)
        assert ours.requires_grad


# --- inside transforms and captures


def model(x):
    return np.sum(np.tanh(x) * np.array([1.0, 2.0, 3.0], np.float32) + np.clip(x, 0, 1) ** np.float64(2), axis=-1)


def plain_model(x):
    return (pl.tanh(x) * pl.tensor([1.0, 2.0, 3.0]) + x.clamp(0, 1) ** 2).sum(-1)


def test_transforms_see_the_operations():
    x = pl.tensor([[0.1, -0.4, 0.7], [1.5, 0.2, 0.3]])
    assert pl.allclose(pl.func.vmap(model)(x), plain_model(x))
    assert pl.allclose(pl.func.vmap(pl.func.grad(model))(x), pl.func.vmap(pl.func.grad(plain_model))(x))
    ours, theirs = (pl.func.jvp(f, (x,), (pl.ones_like(x),)) for f in (model, plain_model))
    assert all(pl.allclose(a, b) for a, b in zip(ours, theirs, strict=True))
    assert pl.allclose(pl.func.hessian(model)(x[0]), pl.func.hessian(plain_model)(x[0]))


def test_a_capture_replays_the_operations():
    def step(x):
        y = np.concatenate([model(x)[None], np.sin(x)])
        (slope,) = pl.autograd.grad(np.sum(y), x)
        return y, slope

    x = pl.tensor([0.1, -0.4, 0.7], requires_grad=True)
    program = pl.capture(step, x)
    other = pl.tensor([0.3, 0.9, -0.2], requires_grad=True)
    for ours, theirs in zip(program(other), step(other), strict=True):
        assert pl.allclose(ours, theirs)


def test_a_capture_refuses_values_that_leave():
    with pytest.raises(CaptureError):
        pl.capture(lambda x: np.add(x, 1, out=np.zeros(2)), pl.ones(2))


def test_under_no_grad_nothing_is_recorded():
    x = pl.ones(2, requires_grad=True)
    with pl.no_grad():
        assert not np.sin(x).requires_grad and not np.stack([x, x]).requires_grad


# --- values out and in


def test_asarray_shares_memory_and_array_copies():
    x = pl.zeros(2)
    np.asarray(x)[0] = 5
    np.array(x)[1] = 5
    assert x.tolist() == [5, 0]
    assert np.asarray(x, copy=False) is not None and np.asarray(x, dtype=np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="copy"):
        np.asarray(x, dtype=np.float64, copy=False)
    assert x.__array__(np.int32).tolist() == [5, 0]
    assert x.__array__(copy=True).base is None


def test_requires_grad_does_not_leave_silently():
    x = pl.ones(2, requires_grad=True)
    for leave in (np.asarray, np.array, lambda t: t.__array__(), lambda t: np.asarray([t, t]), lambda t: t.numpy()):
        with pytest.raises(RuntimeError, match=r"detach\(\)\.numpy\(\)"):
            leave(x)


def test_lists_scalars_and_buffers():
    assert np.asarray([pl.tensor(1.0), pl.tensor(2.0)]).tolist() == [1, 2]
    assert np.array([pl.ones(2), pl.zeros(2)]).shape == (2, 2)
    assert np.arange(3)[pl.tensor([2, 0])].tolist() == [2, 0] and np.arange(3)[pl.tensor(1)] == 1
    assert np.stack([[pl.tensor(1.0)], pl.ones(1)]).tolist() == [[1], [1]]
    assert pl.as_tensor(python_arrays.array("d", [1, 2])).tolist() == [1, 2]
    assert pl.frombuffer(memoryview(bytearray(8)), dtype=pl.float64).tolist() == [0]
    array = np.zeros(2)
    tensor = pl.as_tensor(array)
    array[0] = 3
    assert tensor.tolist() == [3, 0]
    array[:] = pl.ones(2)
    assert array.tolist() == [1, 1]


# --- DLPack

SHARED = [
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]


@pytest.mark.parametrize("name", SHARED)
def test_dlpack_with_numpy(name):
    x = pl.ones(2, 3).to(getattr(pl, name)).T
    array = np.from_dlpack(x)
    assert array.shape == (3, 2) and array.strides == x.array.strides and np.shares_memory(array, x.array)
    back = pl.from_dlpack(array)
    assert back.dtype is x.dtype and np.shares_memory(back.array, x.array)


@pytest.mark.parametrize("name", [*SHARED, "bfloat16"])
def test_dlpack_with_torch(name, torch):
    theirs = torch.ones(2, 3).to(getattr(torch, name)).T
    ours = pl.from_dlpack(theirs)
    assert str(ours.dtype) == str(theirs.dtype) and ours.array.ctypes.data == theirs.data_ptr()
    assert ours.shape == theirs.shape and ours.stride() == theirs.stride()
    ours.zero_()
    assert not theirs.any()
    again = torch.from_dlpack(ours)
    assert again.data_ptr() == theirs.data_ptr() and again.dtype == theirs.dtype
    old = torch.utils.dlpack.from_dlpack(pl.utils.dlpack.to_dlpack(ours))
    assert old.data_ptr() == theirs.data_ptr() and old.dtype == theirs.dtype


@st.composite
def views(draw):
    """Arrays in all layouts that tensors have: no negative strides."""
    kind = draw(st.sampled_from([np.float32, np.int64, np.complex128]))
    array = np.arange(120, dtype=kind).reshape(draw(st.permutations([2, 3, 4, 5])))
    array = array.transpose(draw(st.permutations(range(4))))
    steps = tuple(slice(draw(st.integers(0, 2)), None, draw(st.integers(1, 2))) for _ in range(4))
    return draw(st.sampled_from([array, array[steps], array[0], array[..., :0], array[0, 0, 0, :1].reshape(())]))


@given(views())
def test_dlpack_of_any_layout(array):
    x = pl.from_dlpack(array)
    assert np.array_equal(x.array, array) and (not array.size or np.shares_memory(x.array, array))
    back = np.from_dlpack(x)
    assert np.array_equal(back, array) and back.dtype == array.dtype
    capsule = pl.utils.dlpack.to_dlpack(x)
    assert np.array_equal(pl.utils.dlpack.from_dlpack(capsule).array, array)


@given(views())
def test_dlpack_of_any_layout_with_torch(array):
    torch = pytest.importorskip("torch")
    x = pl.from_dlpack(array)
    theirs = torch.from_dlpack(x)
    assert theirs.numpy().tolist() == array.tolist()
    back = pl.from_dlpack(theirs)
    assert back.shape == x.shape and (not array.size or back.array.ctypes.data == array.ctypes.data)


def test_dlpack_refuses_as_pytorch_does(torch):
    ours, theirs = pl.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    for tensor, library in ((ours, pl), (theirs, torch)):
        for leave in (
            tensor.__dlpack__,
            lambda t=tensor: np.from_dlpack(t),
            lambda t=tensor, m=library: m.from_dlpack(t),
        ):
            with pytest.raises(BufferError, match="require gradient"):
                leave()
        with pytest.raises(AssertionError, match="stream"):
            tensor.detach().__dlpack__(stream=3)
        with pytest.raises(TypeError, match="stream"):
            tensor.detach().__dlpack__(stream="3")
        assert tensor.detach().__dlpack_device__() == (1, 0)
        capsule = tensor.detach().__dlpack__()
        library.from_dlpack(capsule)
        with pytest.raises(RuntimeError, match="capsule"):
            library.from_dlpack(capsule)
        with pytest.raises(RuntimeError, match="capsule"):
            library.from_dlpack(3)


def test_dlpack_requests():
    x = pl.arange(3)
    assert "dltensor_versioned" in repr(x.__dlpack__(max_version=(1, 0))) and "versioned" not in repr(x.__dlpack__())
    with pytest.raises(BufferError, match="device"):
        x.__dlpack__(dl_device=(2, 0))
    copied = pl.from_dlpack(x.numpy(), copy=True)
    copied.zero_()
    np.from_dlpack(x, copy=True)[:] = 0
    assert x.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="negative strides"):
        pl.from_dlpack(np.arange(3)[::-1])
    with pytest.raises(AssertionError, match="CPU"):
        pl.from_dlpack(x, device="cuda")


def test_a_capsule_of_old_may_be_written_to(torch):
    theirs = torch.zeros(2)
    ours = pl.from_dlpack(torch.utils.dlpack.to_dlpack(theirs))
    ours.add_(1)
    assert theirs.tolist() == [1, 1]
    del theirs
    gc.collect()
    assert ours.tolist() == [1, 1]


def test_read_only_memory_stays_read_only():
    array = np.zeros(2)
    array.flags.writeable = False
    with pytest.raises(RuntimeError, match="read-only"):
        pl.from_dlpack(array).add_(1)


def test_a_tensor_from_its_own_dlpack_shares_its_ledger():
    x = pl.ones(2)
    w = pl.ones(2, requires_grad=True)
    y = (x * w).sum()
    pl.from_dlpack(x).add_(1)
    with pytest.raises(InplaceError, match="add_"):
        y.backward()


def test_writes_of_another_library_to_saved_values_are_caught(torch):
    w = pl.ones(2, requires_grad=True)
    x = pl.ones(2)
    outside = torch.from_dlpack(x)
    y = (x * w).sum()
    outside.add_(1)
    with pytest.raises(InplaceError, match=r"outside|NumPy"):
        y.backward()
    theirs = torch.ones(2)
    z = (pl.from_dlpack(theirs) * w).sum()
    theirs.add_(1)
    with pytest.raises(InplaceError, match=r"outside|NumPy"):
        z.backward()


def test_the_ledger_forgets_memory_that_was_shared():
    gc.collect()
    before = len(aliasing.EXPOSED)
    x = pl.from_dlpack(np.ones(3))
    np.from_dlpack(pl.ones(3))
    assert len(aliasing.EXPOSED) >= before + 1
    del x
    gc.collect()
    assert len(aliasing.EXPOSED) == before


# --- the array API standard

STANDARD = """
e inf nan newaxis pi bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128 arange
asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones ones_like tril triu zeros zeros_like
astype broadcast_arrays broadcast_to can_cast finfo iinfo isdtype result_type abs acos acosh add asin asinh atan atan2
atanh bitwise_and bitwise_left_shift bitwise_invert bitwise_or bitwise_right_shift bitwise_xor ceil clip conj copysign
cos cosh divide equal exp expm1 floor floor_divide greater greater_equal hypot imag isfinite isinf isnan less
less_equal log log1p log2 log10 logaddexp logical_and logical_not logical_or logical_xor maximum minimum multiply
negative nextafter not_equal positive pow real reciprocal remainder round sign signbit sin sinh square sqrt subtract
tan tanh trunc take take_along_axis matmul matrix_transpose tensordot vecdot concat expand_dims flip moveaxis
permute_dims repeat reshape roll squeeze stack tile unstack argmax argmin count_nonzero nonzero searchsorted where
unique_all unique_counts unique_inverse unique_values argsort sort cumulative_prod cumulative_sum max mean min prod std
sum var all any diff __array_namespace_info__ __array_api_version__ linalg fft
"""


def test_the_namespace_has_the_standards_names():
    xp = pl.ones(1).__array_namespace__(api_version="2024.12")
    assert [name for name in STANDARD.split() if not hasattr(xp, name)] == []
    with pytest.raises(ValueError, match=r"2030\.12"):
        pl.ones(1).__array_namespace__(api_version="2030.12")
    info = xp.__array_namespace_info__()
    assert info.default_dtypes()["integral"] is pl.int64 and info.default_device() == pl.device("cpu")
    assert set(info.dtypes(kind="real floating")) == {"float32", "float64"} and "int8" in info.dtypes()
    assert info.capabilities()["data-dependent shapes"] and pl.ones(1).to_device(info.devices()[0]).tolist() == [1]


def test_the_standards_functions():
    from pellucid import array_api as xp

    x = xp.asarray([[3.0, 1.0], [2.0, 1.0]])
    assert xp.isdtype(x.dtype, "real floating") and not xp.isdtype(x.dtype, ("integral", pl.bool))
    assert xp.result_type(x, pl.float64, 3) is pl.float64 and xp.finfo(x).dtype is pl.float32
    assert xp.iinfo(pl.int8).max == 127 and xp.astype(x, xp.int64).dtype is pl.int64
    assert xp.unique_all(x).indices.tolist() == [1, 2, 0] and xp.permute_dims(x, (1, 0)).tolist() == x.T.tolist()
    assert xp.sort(x, axis=1, descending=True).tolist() == [[3, 1], [2, 1]]
    assert xp.vecdot(x, x).tolist() == [10, 5] and xp.matrix_transpose(x).tolist() == x.mT.tolist()
    assert xp.atan2(x, 1.0).shape == x.shape and xp.pow(2.0, x).tolist() == [[8, 2], [4, 2]]
    assert xp.arange(3, 0).shape == (0,) and xp.linspace(0, 1, 3).tolist() == [0, 0.5, 1]
    assert xp.linalg.det(x).item() == pytest.approx(1) and xp.fft.fft(x).shape == x.shape
    assert xp.cumulative_sum(x[0], include_initial=True).tolist() == [0, 3, 4]


def ridge(xp, features, targets, strength):
    """A small estimator as scikit-learn writes them: centred, solved, judged, in the standard's words only."""
    offset = xp.mean(features, axis=0, keepdims=True)
    centred = features - offset
    gram = xp.matmul(xp.matrix_transpose(centred), centred) + strength * xp.eye(centred.shape[1], dtype=features.dtype)
    right = xp.matmul(xp.matrix_transpose(centred), targets - xp.mean(targets))
    weights = xp.linalg.solve(gram, right)
    predicted = xp.matmul(centred, weights) + xp.mean(targets)
    return xp.mean(xp.square(predicted - targets)), weights


@pytest.mark.parametrize("library", ["numpy", "array_api_strict"])
def test_code_written_for_the_standard_runs_and_is_differentiable(library):
    other = pytest.importorskip(library)
    features, targets = INPUTS["r"], INPUTS["v"].take([0, 1, 2, 3, 0])
    x = pl.tensor(features, requires_grad=True)
    loss, weights = ridge(x.__array_namespace__(), x, pl.tensor(targets), 0.5)
    theirs = ridge(other, other.asarray(features), other.asarray(targets), 0.5)
    assert float(loss) == pytest.approx(float(theirs[0]), abs=1e-12)
    np.testing.assert_allclose(weights.detach().numpy(), np.from_dlpack(theirs[1]), 1e-10)
    assert gradcheck(lambda x: ridge(x.__array_namespace__(), x, pl.tensor(targets), 0.5)[0], [x])


def test_helpers_of_the_standard_know_tensors():
    compat = pytest.importorskip("array_api_compat")
    x = pl.ones(2, 3)
    assert compat.is_array_api_obj(x) and compat.array_namespace(x).__name__ == "pellucid.array_api"
    assert compat.size(x) == 6 and compat.device(x) == pl.device("cpu") and compat.to_device(x, "cpu") is x


SCIPY = """
import numpy as np, pellucid as pl
from scipy.special import logsumexp, softmax
from scipy.stats import zscore
x = pl.tensor([[0.5, 1.5], [2.5, 0.0]], dtype=pl.float64, requires_grad=True)
a = x.detach().numpy()
for function in (logsumexp, softmax, lambda v: zscore(v, axis=0)):
    ours = function(x)
    assert isinstance(ours, pl.Tensor) and ours.requires_grad, function
    np.testing.assert_allclose(ours.detach().numpy(), function(a), 1e-12)
"""


def test_scipys_functions_take_tensors():
    pytest.importorskip("scipy.special")
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", SCIPY], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


# --- the price


def test_the_tables_are_loaded_when_needed():
    late = "[m for m in sys.modules if m.startswith('pellucid.interop.') or m == 'pellucid.array_api']"
    subprocess.run([sys.executable, "-c", f"import sys, pellucid; assert not {late}"], check=True)


# --- NumPy's numbers as arguments


def single(value):
    """Tensors of double precision in single precision, so that a double among the arguments would show."""
    if isinstance(value, pl.Tensor):
        return value.detach().float() if value.dtype == pl.float64 else value
    return [single(each) for each in value] if isinstance(value, list) else value


def kinds(result):
    """The dtypes and shapes of a result."""
    if isinstance(result, pl.Tensor):
        return str(result.dtype), tuple(result.shape)
    return [kinds(each) for each in result] if isinstance(result, (tuple, list)) else type(result)


def test_a_numpy_number_counts_as_a_python_number():
    pl.ops.load_families()
    numpys, tried = {float: np.float64, int: np.int64}, 0
    for name, operation in OPERATIONS.items():
        for sample in operation.samples(Draw()):
            arguments = {i: single(value) for i, value in enumerate(sample.args)}
            arguments |= {key: single(value) for key, value in sample.kwargs.items()}
            places = [place for place, value in arguments.items() if type(value) in numpys]
            if not places:
                continue
            results = []
            for numbers in (arguments, arguments | {p: numpys[type(arguments[p])](arguments[p]) for p in places}):
                pl.manual_seed(0)
                positional = [value for place, value in numbers.items() if isinstance(place, int)]
                named = {place: value for place, value in numbers.items() if isinstance(place, str)}
                results.append(kinds(operation.function(*positional, **named)))
            assert results[0] == results[1], (name, sample)
            tried += 1
    assert tried > 1000
