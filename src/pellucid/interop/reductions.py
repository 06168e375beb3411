"""NumPy's functions that make many numbers one, or add them up on the way: `np.sum`, `np.max`, `np.cumsum`."""

import math
from typing import Any

from pellucid.core.tensor import Tensor
from pellucid.interop.vocabulary import Array, Function, as_type, beside, floating, lift, named, promoted, torch
from pellucid.ops.arguments import axis_of

# --- axes as NumPy gives them


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """The axes that are meant: None is all of them.

    >>> axes_of(None, 2), axes_of(-1, 2), axes_of((), 2)
    ((0, 1), (1,), ())
    """
    if axis is None:
        return tuple(range(ndim))
    return tuple(axis_of(i, ndim) for i in (axis if isinstance(axis, (tuple, list)) else (axis,)))


def reduced(operation: Function, a: Array, axis: Any, keepdims: bool, **options: Any) -> Array:
    """Reduce along NumPy's axis; where PyTorch takes an empty tuple for all axes, NumPy takes it for none."""
    if isinstance(axis, (tuple, list)) and not len(axis):
        return operation(a.unsqueeze(0), 0, **options)
    return operation(a, axis, keepdim=bool(keepdims), **options)


def along_one(operation: Function, a: Array, axis: Any, keepdims: bool) -> Array:
    """Reduce along several axes with an operation that takes one: they are made one, the last."""
    axes = axes_of(axis, a.ndim)
    rest = tuple(i for i in range(a.ndim) if i not in axes)
    sizes = tuple(a.shape)
    joined = a.permute((*rest, *axes)).reshape((*(sizes[i] for i in rest), math.prod(sizes[i] for i in axes)))
    result: Array = operation(joined, -1)
    if not keepdims:
        return result
    extra = tuple(result.shape)[: result.ndim - len(rest)]  # several quantiles stand in front
    return result.reshape(extra + tuple(1 if i in axes else n for i, n in enumerate(sizes)))


def masked(a: Array, where: Any, value: Any) -> Array:
    """The tensor with a value that does not count in the places that are left out."""
    return a if where is True or where is None else torch.where(lift(where), a, value)


def flat(a: Array, axis: Any) -> tuple[Array, int]:
    """NumPy's scans and sorts without an axis run over all elements in a row."""
    return (a.reshape((-1,)), 0) if axis is None else (a, int(axis))


# --- sums and means


@named("sum")
def sum_(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, initial: Any = None,
    where: Any = True,
) -> Tensor:  # fmt: skip
    total = reduced(torch.sum, masked(as_type(a, dtype), where, 0), axis, keepdims)
    return total if initial is None else total + initial


@named("prod")
def prod(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, initial: Any = None,
    where: Any = True,
) -> Tensor:  # fmt: skip
    product = along_one(torch.prod, masked(as_type(a, dtype), where, 1), axis, keepdims)
    return product if initial is None else product * initial


@named("mean")
def mean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = True
) -> Tensor:
    values = floating(a, dtype)
    if where is True:
        return reduced(torch.mean, values, axis, keepdims)
    counted = torch.broadcast_to(lift(where), tuple(values.shape))
    return sum_(values, axis, keepdims=keepdims, where=counted) / sum_(counted, axis, keepdims=keepdims)


@named("var")
def var(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: bool = False, *,
    correction: float | None = None,
) -> Tensor:  # fmt: skip
    less = ddof if correction is None else correction
    return reduced(torch.var, floating(a, dtype), axis, keepdims, correction=less)


@named("std")
def std(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: bool = False, *,
    correction: float | None = None,
) -> Tensor:  # fmt: skip
    less = ddof if correction is None else correction
    return reduced(torch.std, floating(a, dtype), axis, keepdims, correction=less)


@named("average")
def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False) -> Any:
    values, *given = (floating(a),) if weights is None else map(floating, beside(a, weights))
    if weights is None:
        weighted = mean(values, axis, keepdims=keepdims)
        total = torch.ones_like(weighted) * (values.numel() // max(weighted.numel(), 1))
    else:
        (factors,) = given
        if factors.ndim != values.ndim:  # weights of the elements along one axis
            factors = factors.reshape([-1 if i in axes_of(axis, values.ndim) else 1 for i in range(values.ndim)])
        total = sum_(torch.broadcast_to(factors, tuple(values.shape)), axis, keepdims=keepdims)
        weighted = sum_(values * factors, axis, keepdims=keepdims) / total
    return (weighted, total) if returned else weighted


@named("count_nonzero")
def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    return sum_(lift(a) != 0, axis, keepdims=keepdims)


def logsumexp(a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """What `np.logaddexp.reduce` computes."""
    values = floating(a, dtype)
    return reduced(torch.logsumexp, values, axes_of(axis, values.ndim), keepdims)


# --- the greatest and the smallest


def _extreme(name: str, a: Any, axis: Any, keepdims: bool, initial: Any, where: Any) -> Tensor:
    if where is not True and initial is None:
        raise ValueError("reduction with `where` needs `initial`: no other value is known not to count")
    values = masked(lift(a), where, initial)
    result = reduced(getattr(torch, f"a{name}"), values, axes_of(axis, values.ndim) if axis is None else axis, keepdims)
    return result if initial is None else getattr(torch, f"{name}imum")(result, as_type(initial, result.dtype))


@named("max", "amax")
def max_(
    a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, initial: Any = None, where: Any = True
) -> Tensor:
    return _extreme("max", a, axis, keepdims, initial, where)


@named("min", "amin")
def min_(
    a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, initial: Any = None, where: Any = True
) -> Tensor:
    return _extreme("min", a, axis, keepdims, initial, where)


@named("ptp")
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Tensor:
    return max_(a, axis, keepdims=keepdims) - min_(a, axis, keepdims=keepdims)


@named("argmax")
def argmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Tensor:
    return torch.argmax(lift(a), axis, keepdim=keepdims)


@named("argmin")
def argmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Tensor:
    return torch.argmin(lift(a), axis, keepdim=keepdims)


# --- truth


@named("all")
def all_(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = True) -> Tensor:
    return reduced(torch.all, masked(lift(a) != 0, where, True), axis, keepdims)


@named("any")
def any_(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = True) -> Tensor:
    return reduced(torch.any, masked(lift(a) != 0, where, False), axis, keepdims)


@named("allclose")
def allclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    return bool(isclose(a, b, rtol, atol, equal_nan).all())


@named("isclose")
def isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    return torch.isclose(*promoted(a, b), rtol, atol, equal_nan)


@named("array_equal")
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    first, second = promoted(a1, a2)
    if first.shape != second.shape:
        return False
    same = first == second
    return bool((same | ((first != first) & (second != second)) if equal_nan else same).all())


# --- quantiles


def _quantile(operation: Function, a: Any, q: Any, axis: Any, method: str, keepdims: bool) -> Array:
    values = floating(a)
    shares = as_type(q, values.dtype)

    def along(joined: Array, dim: int) -> Array:
        return operation(joined, shares.reshape((-1,)), dim, interpolation=method)

    result = along_one(along, values, axis, keepdims)
    return result.reshape(tuple(shares.shape) + tuple(result.shape)[1:])


def _enlist_quantile(name: str, operation: str, whole: int) -> None:
    """One of NumPy's quantiles: PyTorch's operation of this name, asked for shares of 1 or of 100."""

    @named(name)
    def quantile(
        a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear",
        keepdims: bool = False,
    ) -> Tensor:  # fmt: skip
        shares = q if whole == 1 else as_type(q, float) / whole
        return _quantile(getattr(torch, operation), a, shares, axis, method, keepdims)


_enlist_quantile("quantile", "quantile", 1)
_enlist_quantile("nanquantile", "nanquantile", 1)
_enlist_quantile("percentile", "quantile", 100)
_enlist_quantile("nanpercentile", "nanquantile", 100)


@named("median")
def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False) -> Tensor:
    """The mean of the two middle elements where there are two; PyTorch's `median` is the lower one."""
    return _quantile(torch.quantile, a, 0.5, axis, "linear", keepdims)


@named("nanmedian")
def nanmedian(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False
) -> Tensor:
    return _quantile(torch.nanquantile, a, 0.5, axis, "linear", keepdims)


# --- the same without NaN


def _without_nan(a: Any, value: float, dtype: Any = None) -> Array:
    values = as_type(a, dtype)
    return torch.where(values != values, value, values) if values.array.dtype.kind in "fcV" else values


@named("nansum")
def nansum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Tensor:
    return sum_(_without_nan(a, 0, dtype), axis, keepdims=keepdims)


@named("nanprod")
def nanprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Tensor:
    return prod(_without_nan(a, 1, dtype), axis, keepdims=keepdims)


@named("nanmean")
def nanmean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Tensor:
    return reduced(torch.nanmean, floating(a, dtype), axis, keepdims)


@named("nanvar")
def nanvar(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: bool = False
) -> Tensor:
    values = floating(a, dtype)
    away = _without_nan(values - nanmean(values, axis, keepdims=True), 0)
    count = count_nonzero(values == values, axis, keepdims=keepdims)
    return sum_(torch.abs(away) ** 2, axis, keepdims=keepdims) / (count - ddof)


@named("nanstd")
def nanstd(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: bool = False
) -> Tensor:
    return torch.sqrt(nanvar(a, axis, dtype, ddof=ddof, keepdims=keepdims))


def _nan_extreme(operation: Function, worst: float, a: Any, axis: Any, keepdims: bool) -> Tensor:
    values = lift(a)
    if values.array.dtype.kind in "biu":
        return operation(values, axis, keepdims=keepdims)
    nothing = all_(values != values, axis, keepdims=keepdims)
    return torch.where(nothing, math.nan, operation(_without_nan(values, worst), axis, keepdims=keepdims))


@named("nanmax")
def nanmax(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Tensor:
    return _nan_extreme(max_, -math.inf, a, axis, keepdims)


@named("nanmin")
def nanmin(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Tensor:
    return _nan_extreme(min_, math.inf, a, axis, keepdims)


@named("nanargmax")
def nanargmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Tensor:
    return argmax(_without_nan(a, -math.inf), axis, keepdims=keepdims)


@named("nanargmin")
def nanargmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Tensor:
    return argmin(_without_nan(a, math.inf), axis, keepdims=keepdims)


# --- scans


@named("cumsum")
def cumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Tensor:
    return torch.cumsum(*flat(as_type(a, dtype), axis))


@named("cumprod")
def cumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Tensor:
    return torch.cumprod(*flat(as_type(a, dtype), axis))


@named("nancumsum")
def nancumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Tensor:
    return cumsum(_without_nan(a, 0, dtype), axis)


@named("nancumprod")
def nancumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Tensor:
    return cumprod(_without_nan(a, 1, dtype), axis)


@named("cumulative_sum")
def cumulative_sum(
    x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: bool = False
) -> Tensor:
    return _from_start(cumsum, x, axis, dtype, 0 if include_initial else None)


@named("cumulative_prod")
def cumulative_prod(
    x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: bool = False
) -> Tensor:
    return _from_start(cumprod, x, axis, dtype, 1 if include_initial else None)


def _from_start(scan: Function, x: Any, axis: Any, dtype: Any, start: int | None) -> Tensor:
    values = lift(x)
    if axis is None and values.ndim > 1:
        raise ValueError("for arrays with more than one dimension, `axis` is needed")
    result: Array = scan(values, axis, dtype)
    if start is None:
        return result
    axis = 0 if axis is None else axis
    first = torch.full_like(result.narrow(axis, 0, 1) if result.shape[axis] else result.sum(axis, keepdim=True), start)
    return torch.cat([first.to(result.dtype), result], axis)


def cummax(a: Any, axis: Any = None, dtype: Any = None) -> Tensor:
    """What `np.maximum.accumulate` computes."""
    return torch.cummax(*flat(as_type(a, dtype), axis)).values


def cummin(a: Any, axis: Any = None, dtype: Any = None) -> Tensor:
    """What `np.minimum.accumulate` computes."""
    return torch.cummin(*flat(as_type(a, dtype), axis)).values


def logcumsumexp(a: Any, axis: Any = None, dtype: Any = None) -> Tensor:
    """What `np.logaddexp.accumulate` computes."""
    return torch.logcumsumexp(*flat(floating(a, dtype), axis))


@named("diff")
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
    values = lift(a)

    def edge(part: Any) -> Any:
        if part is None:
            return None
        extra = beside(a, part)[1]
        if extra.ndim:
            return extra
        return torch.broadcast_to(extra, tuple(values.narrow(axis, 0, 1).shape))

    return torch.diff(values, n, axis, edge(prepend), edge(append))


@named("trapezoid")
def trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Tensor:
    if x is None:
        return torch.trapezoid(lift(y), dx=dx, dim=axis)
    return torch.trapezoid(*beside(y, x), dim=axis)


@named("gradient")
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    values = floating(f)
    axes = axes_of(axis, values.ndim)
    spacing = list(varargs or (1.0,)) * (len(axes) if len(varargs) < 2 else 1)
    slopes = [
        torch.gradient(values, spacing=(step if isinstance(step, (int, float)) else beside(values, step)[1:]), dim=i,
                       edge_order=edge_order)[0]
        for i, step in zip(axes, spacing, strict=True)
    ]  # fmt: skip
    return slopes[0] if len(slopes) == 1 else tuple(slopes)
