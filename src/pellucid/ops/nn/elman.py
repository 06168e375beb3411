"""The simple recurrent layer (Elman's) as a row: one layer in one direction over whole sequences.

    h' = act(x @ weight_ih.T + bias_ih + h @ weight_hh.T + bias_hh)         (act is tanh, or relu)

The row takes (x, h0, weight_ih, weight_hh, [bias_ih, bias_hh]) and gives all h and the last h.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from pellucid.core.primitive import constant, general
from pellucid.core.record import bind
from pellucid.ops.affine import linear
from pellucid.ops.elementwise import tanh
from pellucid.ops.matmul import mm_row
from pellucid.ops.nn.recurrence import (
    Walk,
    all_plain,
    befores,
    composed_steps,
    cut,
    last_states,
    recomputed,
    states_before,
    weight_gradients,
    zeros_for,
)
from pellucid.ops.select import relu

add, dot = np.add, np.dot


def _forward(arrays: tuple[ndarray, ...], walk: Walk, rectified: bool) -> tuple[ndarray, ...]:
    x, h0, w_ih, w_hh, *biases = arrays
    y = dot(x, w_ih.T)
    if biases:
        y += biases[0] + biases[1]
    weight, zero = np.ascontiguousarray(w_hh.T), np.zeros((), x.dtype)
    for new, h in zip(cut(y, walk), befores(h0, y, walk)):
        add(new, dot(h, weight), new)
        if rectified:
            np.maximum(new, zero, out=new)
        else:
            np.tanh(new, new)
    return y, last_states(y, walk)


def _backward(
    gy: ndarray, gh: ndarray, y: ndarray, h0: ndarray, w_hh: ndarray, walk: Walk, rectified: bool
) -> tuple[ndarray, ...]:
    """The gradients of what the activation was applied to, and of h0; and the h that every step began with."""
    slopes = y <= 0 if rectified else 1 - y * y  # of relu: where nothing passes; what is NaN passes, as in PyTorch
    gates = np.empty_like(y)
    h = dh = gh.reshape(h0.shape).copy()
    for g, slope, new in zip(*(cut(view, walk)[::-1] for view in (gy, slopes, gates))):
        if len(new) != len(h):
            h = dh[: len(new)]
        add(h, g, new)
        if rectified:
            np.copyto(new, 0, where=slope)  # a product would make NaN of infinity
        else:
            np.multiply(new, slope, new)
        dot(new, w_hh, h)
    return gates, dh, states_before(h0, y, walk)


elman_back_row = bind(constant("elman_back", _backward, 5, outputs=3))


def _pullback(g: Any, y: Any, inputs: Any, needs: tuple[bool, ...], walk: Walk, rectified: bool) -> Any:
    if not all_plain((*g, *y, *inputs)):
        return recomputed(composed_elman, g, inputs, walk, rectified)
    x, h0, w_ih, w_hh, *_ = inputs
    gates, dh, before = elman_back_row(
        zeros_for(g[0], y[0]), zeros_for(g[1], h0), y[0], h0, w_hh, walk, rectified
    )  # fmt: skip
    found = weight_gradients(gates, gates, x, before, inputs[2:], needs[2:])
    return mm_row(gates, w_ih) if needs[0] else None, dh, *found


def composed_elman(inputs: Sequence[Any], walk: Walk, rectified: bool) -> tuple[Any, ...]:
    """The definition, in operations of the table."""
    x, h0, w_ih, w_hh, *biases = inputs
    b_ih, b_hh = biases or (None, None)
    activation = relu if rectified else tanh
    return composed_steps(
        lambda gates, h: (activation(gates + linear(h, w_hh, b_hh)),), linear(x, w_ih, b_ih), (h0,), walk
    )


elman_row = bind(general("elman", _forward, jvp=None, pullback=_pullback, outputs=2, dtypes="equal", renews=True))
