"""Native loops of attention: one head after the other, some queries at a time, so that their scores stay in the cache.

Scores are not kept for backward: it computes them again, and takes the logarithm of each row's sum of exponentials to
turn them into shares. That is less memory than keeping them, and not more time than fetching them.

Queries, keys and values are read where they lie: (batch, heads, length, width) with any strides but one, the last.
What is made is laid out like them: models that split rows into heads get rows back without a copy.
"""

from functools import lru_cache

import numpy as np
from numpy import ndarray

from pellucid.native import HANDS_AT_MOST, MANY, native, words
from pellucid.native.words import Array, Indices
from pellucid.ops.gemm import WORTH
from pellucid.ops.softmax import exponentials_of, largest_of

# Where each array's entries begin among the `places`: how far apart its examples, its heads and its rows are.
Q, K, V, Y, G, DQ, DK, DV = range(0, 24, 3)
HEAD, ROW = 1, 2
ROWS = 64  # queries at a time


@native
def attention_loop(
    first: int, last: int, hand: int, q: Array, k: Array, v: Array, out: Array, levels: Array, scores: Array,
    factors: Array, at: Indices, heads: int, queries: int, keys: int, width: int, depth: int, causal: int,
    scale: float, calm: int,
) -> None:  # fmt: skip
    """The result, and the logarithms of the sums of the scores' exponentials, for heads from first to last."""
    own = hand * ROWS * keys
    for head in range(first, last):
        example = head // heads
        which = head % heads
        for begin in range(0, queries, ROWS):
            count = words.least(ROWS, queries - begin)
            seen = words.least(begin + count, keys) if causal else keys
            result = example * at[Y] + which * at[Y + HEAD] + begin * at[Y + ROW]
            words.gemm(
                0, 1, count, seen, width, scale, q, example * at[Q] + which * at[Q + HEAD] + begin * at[Q + ROW],
                at[Q + ROW], k, example * at[K] + which * at[K + HEAD], at[K + ROW], 0.0, scores, own, keys,
            )  # fmt: skip
            for i in range(count):
                row = own + i * keys
                visible = words.least(begin + i + 1, keys) if causal else keys
                top = largest_of(scores, row, visible)
                level = 0.0
                factor = 1.0
                if top == LOWEST:  # nothing to look at: zeros instead of NaN
                    for j in range(row, row + visible):
                        scores[j] = 0.0
                else:
                    total = exponentials_of(scores, scores, row, visible, top)
                    level = top + words.log(total)
                    factor = 1.0 / total
                for j in range(row + visible, row + seen):
                    scores[j] = 0.0
                levels[head * queries + begin + i] = level
                factors[hand * ROWS + i] = factor
            words.gemm(
                0, 0, count, depth, seen, 1.0, scores, own, keys, v, example * at[V] + which * at[V + HEAD],
                at[V + ROW], 0.0, out, result, at[Y + ROW],
            )  # fmt: skip
            for i in range(count):
                factor = factors[hand * ROWS + i]
                for j in range(result + i * at[Y + ROW], result + i * at[Y + ROW] + depth):
                    out[j] = out[j] * factor


LOWEST = float("-inf")


@native
def attention_back_loop(
    first: int, last: int, hand: int, g: Array, q: Array, k: Array, v: Array, y: Array, levels: Array,
    dq: Array, dk: Array, dv: Array, shares: Array, slope: Array, at: Indices,
    heads: int, queries: int, keys: int, width: int, depth: int, causal: int, scale: float, calm: int,
) -> None:  # fmt: skip
    """The gradients of queries, keys and values: that of a score is its share times (g v - sum of g result)."""
    own = hand * ROWS * keys
    for head in range(first, last):
        example = head // heads
        which = head % heads
        key = example * at[K] + which * at[K + HEAD]
        key_found = example * at[DK] + which * at[DK + HEAD]
        value_found = example * at[DV] + which * at[DV + HEAD]
        for i in range(keys):
            for j in range(key_found + i * at[DK + ROW], key_found + i * at[DK + ROW] + width):
                dk[j] = 0.0
            for j in range(value_found + i * at[DV + ROW], value_found + i * at[DV + ROW] + depth):
                dv[j] = 0.0
        for begin in range(0, queries, ROWS):
            count = words.least(ROWS, queries - begin)
            seen = words.least(begin + count, keys) if causal else keys
            query = example * at[Q] + which * at[Q + HEAD] + begin * at[Q + ROW]
            result = example * at[Y] + which * at[Y + HEAD] + begin * at[Y + ROW]
            pulled = example * at[G] + which * at[G + HEAD] + begin * at[G + ROW]
            words.gemm(
                0, 1, count, seen, width, scale, q, query, at[Q + ROW], k, key, at[K + ROW], 0.0, shares, own, keys
            )  # fmt: skip
            for i in range(count):
                row = own + i * keys
                visible = words.least(begin + i + 1, keys) if causal else keys
                level = levels[head * queries + begin + i]
                for j in range(row, row + visible):
                    shares[j] = words.exp(shares[j] - level)
                for j in range(row + visible, row + seen):
                    shares[j] = 0.0
            words.gemm(
                1, 0, seen, depth, count, 1.0, shares, own, keys, g, pulled, at[G + ROW], 1.0,
                dv, value_found, at[DV + ROW],
            )  # fmt: skip
            words.gemm(
                0, 1, count, seen, depth, 1.0, g, pulled, at[G + ROW],
                v, example * at[V] + which * at[V + HEAD], at[V + ROW], 0.0, slope, own, keys,
            )  # fmt: skip
            for i in range(count):
                row = own + i * keys
                dot = 0.0
                for j in range(depth):
                    dot += g[pulled + i * at[G + ROW] + j] * y[result + i * at[Y + ROW] + j]
                for j in range(row, row + seen):
                    slope[j] = (slope[j] - dot) * shares[j]
            words.gemm(
                0, 0, count, width, seen, scale, slope, own, keys, k, key, at[K + ROW], 0.0,
                dq, example * at[DQ] + which * at[DQ + HEAD] + begin * at[DQ + ROW], at[DQ + ROW],
            )  # fmt: skip
            words.gemm(
                1, 0, seen, width, count, scale, slope, own, keys, q, query, at[Q + ROW], 1.0,
                dk, key_found, at[DK + ROW],
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
    item, strides = x.itemsize, x.strides
    apart = strides[2]
    if strides[3] != item or apart < x.shape[3] * item or apart % item or min(strides) < 0:
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
    return _apart(arrays[0].itemsize, *[each.strides for each in arrays])


@lru_cache(maxsize=64)  # the same at every step, and an array of a list takes 3 µs
def _apart(itemsize: int, *strides: tuple[int, ...]) -> ndarray:
    return np.array([stride // itemsize for each in strides for stride in each[:3]], np.int64)


def forward(query: ndarray, key: ndarray, value: ndarray, causal: bool, scale: float) -> tuple[ndarray, ...]:
    """The result, and the logarithms of the sums of the scores' exponentials."""
    q, k, v = _seen(query), _seen(key), _seen(value)
    batch, heads, queries, width = q.shape
    keys, depth = v.shape[2:]
    levels, out = np.empty((*query.shape[:-1], 1), q.dtype), _fresh(q, depth)
    scores, factors = np.empty((HANDS_AT_MOST, ROWS, keys), q.dtype), np.empty((HANDS_AT_MOST, ROWS), q.dtype)
    attention_loop(
        batch * heads, 4 * queries * keys, q, k, v, out, levels, scores, factors, _places(q, k, v, out),
        heads, queries, keys, width, depth, causal, scale, ROWS * keys * max(width, depth) > WORTH,
    )  # fmt: skip
    return out if query.ndim == 4 else out[:, 0], levels


def gradients(
    g: ndarray, query: ndarray, key: ndarray, value: ndarray, out: ndarray, levels: ndarray, causal: bool, scale: float
) -> tuple[ndarray, ...]:
    """The gradients of query, key and value."""
    g, q, k, v, y = _seen(g), _seen(query), _seen(key), _seen(value), _seen(out)
    batch, heads, queries, width = q.shape
    keys, depth = v.shape[2:]
    found = [_fresh(each, each.shape[3]) for each in (q, k, v)]
    shares, slope = (np.empty((HANDS_AT_MOST, ROWS, keys), q.dtype) for _ in range(2))
    attention_back_loop(
        batch * heads, 8 * queries * keys, g, q, k, v, y, levels, *found, shares, slope,
        _places(q, k, v, y, g, *found), heads, queries, keys, width, depth, causal, scale,
        ROWS * keys * max(width, depth) > WORTH,
    )  # fmt: skip
    return tuple(found) if query.ndim == 4 else tuple([each[:, 0] for each in found])
