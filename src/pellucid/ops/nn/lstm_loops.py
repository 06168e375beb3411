"""Native loops of the LSTM: a few sequences at a time go through all time steps, in float32.

Sequences know nothing of one another, so the cores share them and never wait. The product of a state with the weight
is written out, as it is too small for the BLAS (8 x 128 by 128 x 512: 17 µs instead of 30): four rows of the weight are
read for all sequences before the next four.
"""

import numpy as np
from numpy import ndarray

from pellucid.native import HANDS_AT_MOST, native
from pellucid.native.words import Array, least, sigmoid, tanh_32
from pellucid.ops.gemm import gemm
from pellucid.ops.nn.recurrence import Walk, last_states, states_before

F32 = np.dtype(np.float32)
FEW = 8  # sequences that go through time together
WORTH = 1 << 15  # elements of all gates from which on the loops are used


def add_product(out: Array, to: int, a: Array, begin: int, step: int, w: Array, count: int, k: int, n: int) -> None:
    """`out += a @ w` for `count` rows of a, each of k numbers and `step` apart, and a matrix w of k x n."""
    whole = k // 4 * 4
    for p in range(0, whole, 4):
        line = p * n
        for b in range(count):
            first = a[begin + b * step + p]
            second = a[begin + b * step + p + 1]
            third = a[begin + b * step + p + 2]
            fourth = a[begin + b * step + p + 3]
            row = to + b * n
            for j in range(n):
                pair = first * w[line + j] + second * w[line + n + j]
                more = third * w[line + 2 * n + j] + fourth * w[line + 3 * n + j]
                out[row + j] = out[row + j] + (pair + more)
    for p in range(whole, k):
        for b in range(count):
            number = a[begin + b * step + p]
            row = to + b * n
            for j in range(n):
                out[row + j] = out[row + j] + number * w[p * n + j]


@native
def lstm_loop(
    first: int, last: int, hand: int, given: Array, h0: Array, c0: Array, w: Array, tape: Array, y: Array, gates: Array,
    times: int, batch: int, size: int, few: int, reverse: int,
) -> None:  # fmt: skip
    """The states of all steps; `given` is what the gates get from the input, w is weight_hh transposed."""
    wide = 4 * size
    block = times * batch * size
    own = hand * few * wide
    for chunk in range(first, last):
        begin = chunk * few
        count = least(few, batch - begin)
        for t in range(times):
            time = times - 1 - t if reverse else t
            before = (time + 1 if reverse else time - 1) * batch + begin
            now = time * batch + begin
            for i in range(count * wide):
                gates[own + i] = given[now * wide + i]
            if t == 0:
                add_product(gates, own, h0, begin * size, size, w, count, size, wide)
            else:
                add_product(gates, own, y, before * size, size, w, count, size, wide)
            for b in range(count):
                row = own + b * wide
                at = (now + b) * size
                for j in range(size):
                    i_gate = sigmoid(gates[row + j])
                    f_gate = sigmoid(gates[row + size + j])
                    g_gate = tanh_32(gates[row + 2 * size + j])
                    o_gate = sigmoid(gates[row + 3 * size + j])
                    kept = c0[(begin + b) * size + j] if t == 0 else tape[4 * block + (before + b) * size + j]
                    c = f_gate * kept + i_gate * g_gate
                    shown = tanh_32(c)
                    tape[at + j] = i_gate
                    tape[block + at + j] = f_gate
                    tape[2 * block + at + j] = o_gate
                    tape[3 * block + at + j] = g_gate
                    tape[4 * block + at + j] = c
                    tape[5 * block + at + j] = shown
                    y[at + j] = o_gate * shown


@native
def lstm_back_loop(
    first: int, last: int, gy: Array, tape: Array, c0: Array, w: Array, gates: Array, dh: Array, dc: Array,
    times: int, batch: int, size: int, few: int, reverse: int,
) -> None:  # fmt: skip
    """The gradients of all gates; dh and dc are those of the last states and become those of the first."""
    wide = 4 * size
    block = times * batch * size
    for chunk in range(first, last):
        begin = chunk * few
        count = least(few, batch - begin)
        for t in range(times):
            time = t if reverse else times - 1 - t
            before = (time + 1 if reverse else time - 1) * batch + begin
            now = time * batch + begin
            for b in range(count):
                at = (now + b) * size
                state = (begin + b) * size
                row = (now + b) * wide
                for j in range(size):
                    i_gate = tape[at + j]
                    f_gate = tape[block + at + j]
                    o_gate = tape[2 * block + at + j]
                    g_gate = tape[3 * block + at + j]
                    shown = tape[5 * block + at + j]
                    kept = c0[state + j] if t == times - 1 else tape[4 * block + (before + b) * size + j]
                    total = dh[state + j] + gy[at + j]
                    c = dc[state + j] + total * o_gate * (1.0 - shown * shown)
                    gates[row + j] = c * g_gate * i_gate * (1.0 - i_gate)
                    gates[row + size + j] = c * kept * f_gate * (1.0 - f_gate)
                    gates[row + 2 * size + j] = c * i_gate * (1.0 - g_gate * g_gate)
                    gates[row + 3 * size + j] = total * shown * o_gate * (1.0 - o_gate)
                    dc[state + j] = c * f_gate
                    dh[state + j] = 0.0
            add_product(dh, begin * size, gates, now * wide, wide, w, count, wide, size)


def fit(x: ndarray, size: int, walk: Walk) -> bool:
    """Whether the loops take a layer: float32, sequences of one length, enough of them."""
    return x.dtype is F32 and bool(walk.batch) and len(x) * size >= WORTH // 4 and lstm_loop.available(F32)


def forward(
    x: ndarray, h0: ndarray, c0: ndarray, w_ih: ndarray, w_hh: ndarray, bias: ndarray | None, walk: Walk
) -> tuple[ndarray, ...]:
    """All h, the last h, the last c, and the tape."""
    batch, size = c0.shape
    given = gemm(x, w_ih.T, bias)
    tape, y = np.empty((6, len(x), size), F32), np.empty((len(x), size), F32)
    gates = np.empty(HANDS_AT_MOST * FEW * 4 * size, F32)
    chunks = -(-batch // FEW)
    lstm_loop(
        chunks, 1 << 20, given, np.ascontiguousarray(h0), np.ascontiguousarray(c0), np.ascontiguousarray(w_hh.T),
        tape, y, gates, len(walk.steps), batch, size, FEW, walk.reverse,
    )  # fmt: skip
    return y, last_states(y, walk), last_states(tape[4], walk), tape


def gradients(
    gy: ndarray, gh: ndarray, gc: ndarray, y: ndarray, tape: ndarray, h0: ndarray, c0: ndarray, w_hh: ndarray,
    walk: Walk,
) -> tuple[ndarray, ...]:  # fmt: skip
    """The gradients of the gates, of h0, of c0 and of every h; and the h that every step began with."""
    batch, size = c0.shape
    gates = np.empty((len(y), 4 * size), F32)
    dh, dc = gh.reshape(h0.shape).copy(), gc.reshape(c0.shape).copy()
    lstm_back_loop(
        -(-batch // FEW), 1 << 20, np.ascontiguousarray(gy), np.ascontiguousarray(tape), np.ascontiguousarray(c0),
        np.ascontiguousarray(w_hh), gates, dh, dc, len(walk.steps), batch, size, FEW, walk.reverse,
    )  # fmt: skip
    return gates, dh, dc, y, states_before(h0, y, walk)  # the gradients of every h serve a projection: there is none
