"""Normalisation as one row: every group of elements is moved to mean 0 and scaled to variance 1, then weighted.

`row(x, weight, bias, moments, layout, eps, centred)` serves layer, batch, group and instance norm alike; without
centring it is the root-mean-square norm. The layout says what is normalised together (see norm_kernels.py).

The normalised x is the gradient of n * sqrt(var + eps), so its Jacobian J is a Hessian and symmetric, and so is the
derivative of J: backward, second order and forward mode are made of the same two functions, `turned` and `bent`.
The mean and the variance are worked out before, by a row without derivative: J is the whole derivative by x.
"""

from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core.kinds import plain
from pellucid.core.modes import is_quiet
from pellucid.core.primitive import add_up, constant, general
from pellucid.core.record import bind
from pellucid.core.tensor import wrap
from pellucid.ops.along import bare
from pellucid.ops.arguments import Axes, Shape, name_of, refusal, shifted
from pellucid.ops.axes import permute_row
from pellucid.ops.convert import as_type
from pellucid.ops.elementwise import rsqrt
from pellucid.ops.expand import expand_row
from pellucid.ops.formats import in_format
from pellucid.ops.nn.norm_kernels import Layout, layout_of, moments_of, normalised, normalised_back
from pellucid.ops.reduce import mean_row, sum_row
from pellucid.ops.shape import reshape_row


class Normal:
    """The normalised x in rows of the table: what second order, forward mode and batching are written with."""

    def __init__(self, x: Any, layout: Layout, eps: float, centred: bool, batch: Shape = ()) -> None:
        self.shape, self.layout, self.centred, self.batch = tuple(x.shape), layout, centred, batch
        self.axes: Axes = shifted(layout.axes) if batch else layout.axes
        c = self.view(x)
        if centred:
            c = c - self.mean(c)
        self.s = rsqrt(self.mean(c * c) + eps)  # what the deviations are scaled by
        self.z = c * self.s  # the normalised x

    def mean(self, t: Any) -> Any:
        return mean_row(t, self.axes, True)

    def view(self, t: Any) -> Any:
        """An array of the shape of x in the layout's view."""
        return reshape_row(t, (*self.batch, *self.layout.view))

    def back(self, t: Any) -> Any:
        """An array of the view in the shape of x."""
        return reshape_row(t, self.shape)

    def beside(self, weight: Any) -> Any:
        """A weight or a bias, shaped to broadcast against the view; one that is not there has no dimensions."""
        given = self.layout.weight if len(weight.shape) > len(self.batch) else ()
        return reshape_row(weight, (*self.batch, *(1,) * (len(self.layout.view) - len(given)), *given))

    def total(self, t: Any, shape: Shape) -> Any:
        """The gradient of a weight of that shape: summed over what it was broadcast along."""
        rank, kept = len(t.shape), len(self.batch)
        if len(shape) == kept:
            return sum_row(t, tuple(range(kept, rank)), False)
        given = (*self.batch, *(1,) * (rank - kept - len(self.layout.weight)), *self.layout.weight)
        return reshape_row(sum_row(t, tuple(i for i in range(kept, rank) if given[i] == 1), True), shape)

    def turned(self, h: Any) -> Any:
        """J h: the change of z when x changes by h, and the gradient of x when h is that of z."""
        rest = h - self.mean(h) if self.centred else h
        return self.s * (rest - self.z * self.mean(h * self.z))

    def bent(self, h: Any, u: Any) -> Any:
        """The change of J h when x changes by u; as J is a Hessian, h and u may be exchanged."""
        hz, uz = self.mean(h * self.z), self.mean(u * self.z)
        both = self.mean(h * u) - hz * uz
        if self.centred:
            both = both - self.mean(h) * self.mean(u)
        return -self.s * (self.s * self.z * both + uz * self.turned(h) + hz * self.turned(u))


def _batch_moments(op: Any, a: Any, layout: Layout, eps: float, centred: bool) -> Any:
    size = a.shape[0]
    y = op(a, layout_of((size, *layout.view), shifted(layout.axes), layout.weight), eps, centred)
    return permute_row(y, (1, 0, *range(2, y.ndim)))


# moments_row(x, layout, eps, centred): for each group its mean, 1 / sqrt(var + eps), var, and whether a mean is far
# from 0, along a new first axis.
moments_row = bind(constant("moments", moments_of, 1, dtypes="equal", batch=_batch_moments))


# --- backward as a row: its first order is a fast kernel, its derivative is written in rows


def _back_pullback(g: Any, a: Any, b: Any, c: Any, layout: Layout, eps: float, centred: bool, bias: Shape) -> Any:
    """The gradients of g, x and the weight, from those of the gradients of x, of the weight and of the bias."""
    normal = Normal(b, layout, eps, centred)
    given, w = normal.view(a), normal.beside(c)
    of_x, of_weight, of_bias = g
    to_g, to_x, to_weight = [], [], None
    if of_x is not None:
        of_x = normal.view(of_x)
        moved = normal.turned(of_x)
        to_g.append(w * moved)
        to_weight = normal.total(given * moved, c.shape)
        to_x.append(normal.bent(of_x, given * w))
    if of_weight is not None:
        v = normal.beside(of_weight)
        to_g.append(v * normal.z)
        to_x.append(normal.turned(given * v))
    if of_bias is not None:
        to_g.append(expand_row(normal.beside(of_bias), layout.view))
    return normal.back(add_up(to_g)), normal.back(add_up(to_x)) if to_x else None, to_weight, None


def _back_jvp(tangents: Any, y: Any, inputs: Any, params: Any) -> Any:
    (tg, tx, tw, _), (g, x, weight, _) = tangents, inputs
    *how, bias = params
    normal = Normal(x, *how)
    g, w = normal.view(g), normal.beside(weight)
    of_x, of_weight, of_bias = [], [], None
    if tg is not None:
        tg = normal.view(tg)
        of_x.append(normal.turned(tg * w))
        of_weight.append(normal.total(tg * normal.z, weight.shape))
        of_bias = normal.total(tg, bias)
    if tw is not None:
        of_x.append(normal.turned(g * normal.beside(tw)))
    if tx is not None:
        tx = normal.view(tx)
        of_x.append(normal.bent(g * w, tx))
        of_weight.append(normal.total(g * normal.turned(tx), weight.shape))
    return normal.back(add_up(of_x)), add_up(of_weight), of_bias


def _batch_back(
    op: Any, g: Any, x: Any, weight: Any, moments: Any, layout: Layout, eps: float, centred: bool, bias: Shape
) -> Any:
    normal = Normal(x, layout, eps, centred, tuple(x.shape[:1]))
    g = normal.view(g)
    of_weight, of_bias = normal.total(g * normal.z, weight.shape), normal.total(g, (x.shape[0], *bias))
    return normal.back(normal.turned(g * normal.beside(weight))), of_weight, of_bias


# normalise_back_row(g, x, weight, moments, layout, eps, centred, shape of the bias) -> the gradients of x, of the
# weight and of the bias
normalise_back_row = bind(
    general(
        "normalise_back", normalised_back, None, None, None, None,
        pullback=_back_pullback, jvp=_back_jvp, outputs=3, dtypes="equal", batch=_batch_back,
        grad_name="NativeLayerNormBackwardBackward0",
    )
)  # fmt: skip


# --- forward


def _pullback(g: Any, a: Any, b: Any, d: Any, c_shape: Shape, layout: Layout, eps: float, centred: bool) -> Any:
    return *normalise_back_row(g, a, b, d, layout, eps, centred, tuple(c_shape)), None


def _jvp(tangents: Any, y: Any, inputs: Any, params: Any) -> Any:
    (tx, tw, tb, _), (x, weight, _, _) = tangents, inputs
    normal = Normal(x, *params)
    terms = []
    if tx is not None:
        terms.append(normal.beside(weight) * normal.turned(normal.view(tx)))
    if tw is not None:
        terms.append(normal.beside(tw) * normal.z)
    if tb is not None:
        terms.append(expand_row(normal.beside(tb), normal.layout.view))
    return normal.back(add_up(terms))


def _batch(op: Any, x: Any, weight: Any, bias: Any, moments: Any, layout: Layout, eps: float, centred: bool) -> Any:
    normal = Normal(x, layout, eps, centred, tuple(x.shape[:1]))
    return normal.back(normal.z * normal.beside(weight) + normal.beside(bias))


def normalising(name: str, grad_name: str, forward: Any = normalised) -> Any:
    """A row `row(x, weight, bias, moments, layout, eps, centred)`; one per name that PyTorch gives the node."""
    return bind(
        general(
            name, forward, None, None, None, None,
            pullback=_pullback, jvp=_jvp, dtypes="equal", grad_name=grad_name, batch=_batch, half="moments",
        )
    )  # fmt: skip


layer_norm_row = normalising("layer_norm", "NativeLayerNormBackward0")
batch_norm_row = normalising("batch_norm", "NativeBatchNormBackward0", in_format(normalised))
group_norm_row = normalising("group_norm", "NativeGroupNormBackward0", in_format(normalised))
rms_norm_row = normalising("rms_norm", "MulBackward0")

# The weight and the bias that are not there; each call wraps them anew, so that a capture sees a constant.
ONE, ZERO = ({np.dtype(t): make((), t) for t in (np.float32, np.float64)} for make in (np.ones, np.zeros))


def normal(row: Any, kernel: str, input: Any, weight: Any, bias: Any, layout: Layout, eps: float) -> tuple[Any, Any]:
    """The normalised input, and the moments of each group; `kernel` is what PyTorch's refusals of a dtype name."""
    dtype = plain(input.array.dtype)
    if dtype not in ONE:
        return _in_float32(row, kernel, input, weight, bias, layout, eps)
    weight = wrap(ONE[dtype]) if weight is None else weight
    bias = wrap(ZERO[dtype]) if bias is None else bias
    centred, x = row is not rms_norm_row, input.array
    if type(x) is np.ndarray and is_quiet():
        moments = wrap(moments_of(x, layout, eps, centred))  # the row would only compute it, in 4 µs more
    else:
        moments = moments_row(bare(input), layout, eps, centred)
    return row(input, weight, bias, moments, layout, eps, centred), moments


def _in_float32(row: Any, kernel: str, input: Any, weight: Any, bias: Any, layout: Layout, eps: float) -> Any:
    """Half precision is normalised in float32, with float32 moments."""
    if input.array.dtype.kind in "biuc":
        what = f"\"{kernel}\" not implemented for '{name_of(input)}'"
        raise refusal(NotImplementedError, what, f"the dtype is {input.dtype}", "convert it first, e.g. x.float()")
    weight, bias = (None if each is None else as_type(each, dtypes.float32) for each in (weight, bias))
    result, moments = normal(row, kernel, as_type(input, dtypes.float32), weight, bias, layout, eps)
    return as_type(result, input.dtype), moments


def wide_dtype(input: Any) -> Any:
    """The dtype that statistics are computed in: half precision in float32."""
    return input.dtype if plain(input.array.dtype) in ONE else dtypes.float32


def statistics_dtype(input: Any, *given: Any) -> Any:
    """The dtype that statistics are returned in: that of the weights if there are some."""
    return next((each.dtype for each in given if each is not None), input.dtype)
