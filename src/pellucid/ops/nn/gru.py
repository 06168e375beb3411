"""The GRU as a row: one layer in one direction over whole sequences.

    r = sigmoid(x @ W_ir.T + b_ir + h @ W_hr.T + b_hr)          z likewise
    m = h @ W_hn.T + b_hn
    n = tanh(x @ W_in.T + b_in + r * m)
    h' = (1 - z) * n + z * h

The row takes (x, h0, weight_ih, weight_hh, [bias_ih, bias_hh]) and gives all h, the last h, and the tape: r, z, n and
m, a block each.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from pellucid.core.primitive import constant, general
from pellucid.core.record import bind
from pellucid.ops.affine import linear
from pellucid.ops.elementwise import sigmoid, tanh
from pellucid.ops.matmul import mm_row
from pellucid.ops.nn.recurrence import (
    ONES,
    Walk,
    all_plain,
    befores,
    by_gate,
    composed_steps,
    cut,
    in_blocks,
    last_states,
    projected,
    recomputed,
    sigmoid_of_negated,
    states_before,
    weight_gradients,
    zeros_for,
)
from pellucid.ops.split import chunk

multiply, add, subtract, dot = np.multiply, np.add, np.subtract, np.dot


def _forward(arrays: tuple[ndarray, ...], walk: Walk) -> tuple[ndarray, ...]:
    x, h0, w_ih, w_hh, *biases = arrays
    batch, size = h0.shape
    bias, shift = None, np.zeros(size, x.dtype)  # the shift is m's
    if biases:
        bias, shift = biases[0].copy(), biases[1][2 * size :]
        bias[: 2 * size] += biases[1][: 2 * size]
    given = projected(x, w_ih, bias, size)
    weights, one = np.ascontiguousarray(by_gate(w_hh, size).T), ONES[x.dtype]
    tape, y = np.empty((4, len(x), size), x.dtype), np.empty((len(x), size), x.dtype)
    gates = np.empty((batch, 3 * size), x.dtype)
    *_, last_gate = blocks = in_blocks(gates, size)
    views = (given[:, : 2 * size], given[:, 2 * size :], tape[:2], tape, y)
    parts = zip(*(cut(view, walk) for view in views), befores(h0, y, walk))
    for inputs, last_input, switches, (r, z, n, m), new, h in parts:
        if len(r) != len(gates):
            gates = np.empty((len(r), 3 * size), x.dtype)
            *_, last_gate = blocks = in_blocks(gates, size)
        dot(h, weights, gates)
        first = gates[:, : 2 * size]
        add(inputs, first, first)
        sigmoid_of_negated(blocks[:2], switches, one)
        add(last_gate, shift, m)
        add(last_input, multiply(r, m, n), n)
        np.tanh(n, n)
        subtract(h, n, new)
        add(multiply(new, z, new), n, new)
    return y, last_states(y, walk), tape


def _slopes(tape: ndarray, before: ndarray) -> ndarray:
    """What the gradient of h' is multiplied by to give those of z and n, then that of n to give those of r and m."""
    r, z, n, m = tape
    found = np.empty((4, *r.shape), r.dtype)
    multiply(subtract(z, z * z, found[0]), before - n, found[0])
    multiply(subtract(1, n * n, found[1]), 1 - z, found[1])
    multiply(subtract(r, r * r, found[2]), m, found[2])
    found[3] = r
    return found


def _backward(
    gy: ndarray, gh: ndarray, y: ndarray, tape: ndarray, h0: ndarray, w_hh: ndarray, walk: Walk
) -> tuple[ndarray, ...]:
    """The gradients of the gates' input and recurrent parts and of h0; and the h that every step began with."""
    before = states_before(h0, y, walk)
    slopes = _slopes(tape, before)
    _, count, size = slopes.shape
    # Side by side the gradients of r, z, m and n: the first three are the recurrent part, r, z and n the input part.
    gates = np.empty((count, 4 * size), y.dtype)
    blocks = in_blocks(gates, size)
    h = dh = gh.reshape(h0.shape).copy()
    views = (gy, gates[:, : 3 * size], blocks[1::2], blocks[3], blocks[:3:2], slopes[:2], slopes[2:], tape[1])
    for g, recurrent, to_zn, n, to_rm, of_zn, of_rm, z in zip(*(cut(view, walk)[::-1] for view in views)):
        if len(z) != len(h):
            h = dh[: len(z)]
        add(h, g, h)
        multiply(h, of_zn, to_zn)
        multiply(n, of_rm, to_rm)
        multiply(h, z, h)
        add(h, dot(recurrent, w_hh), h)
    inputs = gates[:, : 3 * size].copy()
    inputs[:, 2 * size :] = gates[:, 3 * size :]
    return inputs, gates[:, : 3 * size], dh, before


gru_back_row = bind(constant("gru_back", _backward, 6, outputs=4))


def _pullback(g: Any, y: Any, inputs: Any, needs: tuple[bool, ...], walk: Walk) -> Any:
    if not all_plain((*g, *y, *inputs)):
        return recomputed(composed_gru, g[:2], inputs, walk)
    x, h0, w_ih, w_hh, *_ = inputs
    out, _, tape = y
    seeds = zeros_for(g[0], out), zeros_for(g[1], h0)
    gates, recurrent, dh, before = gru_back_row(*seeds, out, tape, h0, w_hh, walk)
    found = weight_gradients(gates, recurrent, x, before, inputs[2:], needs[2:])
    return mm_row(gates, w_ih) if needs[0] else None, dh, *found


def composed_gru(inputs: Sequence[Any], walk: Walk) -> tuple[Any, ...]:
    """The definition, in operations of the table."""
    x, h0, w_ih, w_hh, *biases = inputs
    b_ih, b_hh = biases or (None, None)

    def step(gates: Any, h: Any) -> tuple[Any]:
        xr, xz, xn = chunk(gates, 3, 1)
        hr, hz, m = chunk(linear(h, w_hh, b_hh), 3, 1)
        n = tanh(xn + sigmoid(xr + hr) * m)
        return (n + sigmoid(xz + hz) * (h - n),)

    return composed_steps(step, linear(x, w_ih, b_ih), (h0,), walk)


gru_row = bind(general("gru", _forward, jvp=None, pullback=_pullback, outputs=3, dtypes="equal", renews=True))
