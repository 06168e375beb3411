"""Native loops of attention: one head after the other, its scores in the cache from the first product to the last.

Queries, keys and values are read where they lie: (batch, heads, length, width) with any strides but one, the last.
What is made is laid out like them: models that split rows into heads get rows back without a copy.
"""

import numpy as np
from numpy import ndarray

from pellucid.native import HANDS_AT_MOST, MANY, native, words
from pellucid.native.words import Array, Indices
from pellucid.ops.gemm import WORTH

# Where each array's entries begin among the `places`: how far apart its examples, its heads and its rows are.
Q, K, V, Y, G, DQ, DK, DV = range(0, 24, 3)
HEAD, ROW = 1, 2


@native
def attention_loop(
    first: int, last: int, q: Array, k: Array, v: Array, out: Array, powers: Array, inverse: Array, at: Indices,
    heads: int, queries: int, keys: int, width: int, depth: int, causal: int, scale: float, calm: int,
) -> None:  # fmt: skip
    """The result, the exponentials of the scores and 1 / their sums, for heads from first to last."""
    for head in range(first, last):
        example = head // heads
        which = head % heads
        e = head * queries * keys
        result = example * at[Y] + which * at[Y + HEAD]
        words.gemm(
            0, 1, queries, keys, width, scale, q, example * at[Q] + which * at[Q + HEAD], at[Q + ROW],
            k, example * at[K] + which * at[K + HEAD], at[K + ROW], 0.0, powers, e, keys,
        )  # fmt: skip
        for i in range(queries):
            begin = e + i * keys
            seen = words.least(i + 1, keys) if causal else keys
            top = powers[begin]
            for j in range(begin, begin + seen):
                top = words.larger(top, powers[j])
            total = 0.0
            if top == LOWEST:  # nothing to look at: zeros instead of NaN
                total = 1.0
                for j in range(begin, begin + seen):
                    powers[j] = 0.0
            else:
                for j in range(begin, begin + seen):
                    share = words.exp(powers[j] - top)
                    powers[j] = share
                    total += share
            for j in range(begin + seen, begin + keys):
                powers[j] = 0.0
            inverse[head * queries + i] = 1.0 / total
        words.gemm(
            0, 0, queries, depth, keys, 1.0, powers, e, keys, v, example * at[V] + which * at[V + HEAD], at[V + ROW],
            0.0, out, result, at[Y + ROW],
        )  # fmt: skip
        for i in range(queries):
            factor = inverse[head * queries + i]
            for j in range(result + i * at[Y + ROW], result + i * at[Y + ROW] + depth):
                out[j] = out[j] * factor


LOWEST = float("-inf")


@native
def attention_back_loop(
    first: int, last: int, hand: int, g: Array, q: Array, k: Array, v: Array, y: Array, powers: Array, inverse: Array,
    dq: Array, dk: Array, dv: Array, shared: Array, slope: Array, at: Indices,
    heads: int, queries: int, keys: int, width: int, depth: int, scale: float, calm: int,
) -> None:  # fmt: skip
    """The gradients of queries, keys and values: with P = E / sums, that of a score is P (g v - sum of g result)."""
    own = hand * queries * depth
    scores = hand * queries * keys
    for head in range(first, last):
        example = head // heads
        which = head % heads
        e = head * queries * keys
        value = example * at[V] + which * at[V + HEAD]
        for i in range(queries):
            factor = inverse[head * queries + i]
            row = example * at[G] + which * at[G + HEAD] + i * at[G + ROW]
            for j in range(depth):
                shared[own + i * depth + j] = g[row + j] * factor
        words.gemm(
            1, 0, keys, depth, queries, 1.0, powers, e, keys, shared, own, depth, 0.0,
            dv, example * at[DV] + which * at[DV + HEAD], at[DV + ROW],
        )  # fmt: skip
        words.gemm(
            0, 1, queries, keys, depth, 1.0, shared, own, depth, v, value, at[V + ROW], 0.0, slope, scores, keys
        )  # fmt: skip
        for i in range(queries):
            row = example * at[Y] + which * at[Y + HEAD] + i * at[Y + ROW]
            dot = 0.0
            for j in range(depth):
                dot += shared[own + i * depth + j] * y[row + j]
            for j in range(keys):
                slope[scores + i * keys + j] = (slope[scores + i * keys + j] - dot) * powers[e + i * keys + j]
        words.gemm(
            0, 0, queries, width, keys, scale, slope, scores, keys,
            k, example * at[K] + which * at[K + HEAD], at[K + ROW], 0.0,
            dq, example * at[DQ] + which * at[DQ + HEAD], at[DQ + ROW],
        )  # fmt: skip
        words.gemm(
            1, 0, keys, width, queries, scale, slope, scores, keys,
            q, example * at[Q] + which * at[Q + HEAD], at[Q + ROW], 0.0,
            dk, example * at[DK] + which * at[DK + HEAD], at[DK + ROW],
        )  # fmt: skip


def fit(query: ndarray, key: ndarray, value: ndarray) -> bool:
    """Whether the loops take these: enough scores, one type, and the same leading dimensions."""
    if query.ndim not in (3, 4) or query.shape[:-2] != key.shape[:-2] or key.shape[:-2] != value.shape[:-2]:
        return False
    if query.size // (query.shape[-1] or 1) * key.shape[-2] < MANY or query.dtype is not key.dtype:
        return False
    return key.dtype is value.dtype and attention_loop.available(query.dtype)


def _seen(x: ndarray) -> ndarray:
    """As (batch, heads, length, width), with rows that lie in one piece and apart from one another."""
    x = x if x.ndim == 4 else x[:, None]
    apart, own = x.strides[2], x.shape[3] * x.itemsize
    if x.strides[3] != x.itemsize or apart < own or apart % x.itemsize or min(x.strides) < 0:
        return np.ascontiguousarray(x)
    return x


def _fresh(like: ndarray, width: int) -> ndarray:
    """An array for heads of some width, laid out like another: heads before rows, or rows before heads."""
    batch, heads, length, _ = like.shape
    if like.strides[1] < like.strides[2]:
        return np.empty((batch, length, heads, width), like.dtype).swapaxes(1, 2)
    return np.empty((batch, heads, length, width), like.dtype)


def _places(*arrays: ndarray) -> ndarray:
    """How far apart the examples, the heads and the rows of each are."""
    return np.array([stride // each.itemsize for each in arrays for stride in each.strides[:3]], np.int64)


def forward(query: ndarray, key: ndarray, value: ndarray, causal: bool, scale: float) -> tuple[ndarray, ...]:
    """The result, E, and 1 / sums of E's rows."""
    q, k, v = (_seen(each) for each in (query, key, value))
    batch, heads, queries, width = q.shape
    keys, depth = v.shape[2:]
    powers = np.empty((*query.shape[:-1], keys), q.dtype)
    inverse = np.empty((*query.shape[:-1], 1), q.dtype)
    out = _fresh(q, depth)
    attention_loop(
        batch * heads, 4 * queries * keys, q, k, v, out, powers, inverse, _places(q, k, v, out),
        heads, queries, keys, width, depth, causal, scale, queries * keys * max(width, depth) > WORTH,
    )  # fmt: skip
    return out if query.ndim == 4 else out[:, 0], powers, inverse


def gradients(
    g: ndarray, query: ndarray, key: ndarray, value: ndarray, out: ndarray, powers: ndarray, inverse: ndarray,
    scale: float,
) -> tuple[ndarray, ...]:  # fmt: skip
    """The gradients of query, key and value."""
    g, q, k, v, y = (_seen(each) for each in (g, query, key, value, out))
    batch, heads, queries, width = q.shape
    keys, depth = v.shape[2:]
    found = [_fresh(each, each.shape[3]) for each in (q, k, v)]
    shared, slope = (
        np.empty((HANDS_AT_MOST, queries, depth), q.dtype),
        np.empty((HANDS_AT_MOST, queries, keys), q.dtype),
    )
    attention_back_loop(
        batch * heads, 8 * queries * keys, g, q, k, v, y, powers, inverse, *found, shared, slope,
        _places(q, k, v, y, g, *found), heads, queries, keys, width, depth, scale,
        queries * keys * max(width, depth) > WORTH,
    )  # fmt: skip
    return tuple(found) if query.ndim == 4 else tuple([each[:, 0] for each in found])
