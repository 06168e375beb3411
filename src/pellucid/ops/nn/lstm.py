"""The LSTM as a row: one layer in one direction over whole sequences.

    i, f, g, o = x @ weight_ih.T + bias_ih + h @ weight_hh.T + bias_hh     (four gates, side by side)
    c' = sigmoid(f) * c + sigmoid(i) * tanh(g)
    h' = sigmoid(o) * tanh(c')                                              (@ weight_hr.T with a projection)

The row takes (x, h0, c0, weight_ih, weight_hh, [bias_ih, bias_hh], [weight_hr]) and gives all h, the last h, the last
c, and the tape: i, f, o, g after their activations, c' and tanh(c'), a block each.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from pellucid.core.primitive import constant, general
from pellucid.core.record import bind
from pellucid.ops.affine import linear
from pellucid.ops.elementwise import sigmoid, tanh
from pellucid.ops.matmul import mm_row, swap
from pellucid.ops.nn import lstm_loops
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
    times_states_before,
    weight_gradients,
    zeros_for,
)
from pellucid.ops.split import chunk

multiply, add, subtract, dot = np.multiply, np.add, np.subtract, np.dot


def biases_of(weights: Sequence[Any]) -> tuple[Any, ...]:
    """The two biases of a layer, or none."""
    return tuple(weights[2:4]) if len(weights) > 3 else ()


def projection_of(weights: Sequence[Any]) -> Any:
    """weight_hr, or None without a projection."""
    return weights[-1] if len(weights) % 2 else None


def _forward(arrays: tuple[ndarray, ...], walk: Walk) -> tuple[ndarray, ...]:
    x, h0, c0, w_ih, w_hh, *_ = arrays
    biases, w_hr = biases_of(arrays[3:]), projection_of(arrays[3:])
    batch, size = c0.shape
    if w_hr is None and lstm_loops.fit(x, size, walk):
        return lstm_loops.forward(x, h0, c0, w_ih, w_hh, biases[0] + biases[1] if biases else None, walk)
    given = projected(x, w_ih, biases[0] + biases[1] if biases else None, size)
    # In C order: 16 sequences of 128 then take 35 µs a step instead of 46.
    weights, one = np.ascontiguousarray(by_gate(w_hh, size).T), ONES[x.dtype]
    tape, y = np.empty((6, len(x), size), x.dtype), np.empty((len(x), h0.shape[1]), x.dtype)
    gates, product = np.empty((batch, 4 * size), x.dtype), np.empty((batch, size), x.dtype)
    blocks = in_blocks(gates, size)
    first_gates, last_gate = blocks[:3], blocks[3]
    views = (given, tape[:3], tape, y)
    states = befores(h0, y, walk), befores(c0, tape[4], walk)
    for inputs, switches, (i, f, o, g, c, shown), new, h, before in zip(*(cut(v, walk) for v in views), *states):
        if len(i) != len(gates):
            gates, product = np.empty(inputs.shape, x.dtype), np.empty(i.shape, x.dtype)
            blocks = in_blocks(gates, size)
            first_gates, last_gate = blocks[:3], blocks[3]
        add(inputs, dot(h, weights, gates), gates)
        sigmoid_of_negated(first_gates, switches, one)
        np.tanh(last_gate, g)
        multiply(f, before, c)
        add(c, multiply(i, g, product), c)
        np.tanh(c, shown)
        if w_hr is None:
            multiply(o, shown, new)
        else:
            dot(multiply(o, shown, product), w_hr.T, new)
    return y, last_states(y, walk), last_states(tape[4], walk), tape


def _slopes(tape: ndarray, c0: ndarray, walk: Walk) -> ndarray:
    """What the gradient of c is multiplied by to give those of i, f and g, then that of h to give those of o and c."""
    i, f, o, g, c, shown = tape
    found = np.empty((5, *i.shape), i.dtype)
    for gate, slope in ((i, found[0]), (f, found[1]), (o, found[3])):
        subtract(gate, multiply(gate, gate, slope), slope)
    for value, slope in ((g, found[2]), (shown, found[4])):
        subtract(1, multiply(value, value, slope), slope)
    for factor, slope in ((g, found[0]), (i, found[2]), (shown, found[3]), (o, found[4])):
        multiply(slope, factor, slope)
    times_states_before(found[1], c0, c, walk)
    return found


def _backward(
    gy: ndarray, gh: ndarray, gc: ndarray, y: ndarray, tape: ndarray, h0: ndarray, c0: ndarray, w_hh: ndarray,
    w_hr: ndarray, walk: Walk,
) -> tuple[ndarray, ...]:  # fmt: skip
    """The gradients of the gates, of h0, of c0 and of every h; and the h that every step began with."""
    if not w_hr.size and lstm_loops.fit(y, c0.shape[1], walk):
        return lstm_loops.gradients(gy, gh, gc, y, tape, h0, c0, w_hh, walk)
    slopes = _slopes(tape, c0, walk)
    _, count, size = slopes.shape
    gates = np.empty((count, 4 * size), y.dtype)
    blocks = in_blocks(gates, size)
    totals, dh, dc = np.empty_like(y), gh.reshape(h0.shape).copy(), gc.reshape(c0.shape).copy()
    product = np.empty_like(dc)
    h, c, spare = dh, dc, product
    views = (gy, totals, gates, blocks[:3], blocks[3], slopes[:3], slopes[3], slopes[4], tape[1])
    for g, total, all_gates, to_ifg, to_o, of_ifg, of_o, of_c, f in zip(*(cut(view, walk)[::-1] for view in views)):
        if len(f) != len(c):
            h, c, spare = dh[: len(f)], dc[: len(f)], product[: len(f)]
        add(h, g, total)
        if w_hr.size:
            total = dot(total, w_hr)
        multiply(total, of_o, to_o)
        add(c, multiply(total, of_c, spare), c)
        multiply(c, of_ifg, to_ifg)
        multiply(c, f, c)
        dot(all_gates, w_hh, h)
    return gates, dh, dc, totals, states_before(h0, y, walk)


lstm_back_row = bind(constant("lstm_back", _backward, 9, outputs=5))


def _pullback(g: Any, y: Any, inputs: Any, needs: tuple[bool, ...], walk: Walk) -> Any:
    if not all_plain((*g, *y, *inputs)):
        return recomputed(composed_lstm, g[:3], inputs, walk)
    x, h0, c0, w_ih, w_hh, *_ = inputs
    out, _, _, tape = y
    weights = inputs[3:]
    w_hr = projection_of(weights)
    seeds = zeros_for(g[0], out), zeros_for(g[1], h0), zeros_for(g[2], c0)
    spare = out[:0, :0] if w_hr is None else w_hr
    gates, dh, dc, totals, before = lstm_back_row(*seeds, out, tape, h0, c0, w_hh, spare, walk)
    found = weight_gradients(gates, gates, x, before, weights, needs[3:])
    if w_hr is not None:
        found.append(mm_row(swap(totals), tape[2] * tape[5]) if needs[-1] else None)
    return mm_row(gates, w_ih) if needs[0] else None, dh, dc, *found


def composed_lstm(inputs: Sequence[Any], walk: Walk) -> tuple[Any, ...]:
    """The definition, in operations of the table."""
    x, h0, c0, w_ih, w_hh, *_ = inputs
    b_ih, b_hh = biases_of(inputs[3:]) or (None, None)
    w_hr = projection_of(inputs[3:])

    def step(gates: Any, h: Any, c: Any) -> tuple[Any, Any]:
        i, f, g, o = chunk(gates + linear(h, w_hh, b_hh), 4, 1)
        c = sigmoid(f) * c + sigmoid(i) * tanh(g)
        h = sigmoid(o) * tanh(c)
        return h if w_hr is None else linear(h, w_hr), c

    return composed_steps(step, linear(x, w_ih, b_ih), (h0, c0), walk)


lstm_row = bind(general("lstm", _forward, jvp=None, pullback=_pullback, outputs=4, dtypes="equal", renews=True))
