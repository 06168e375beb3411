"""Attention as a row: products, softmax and products in one step, a few heads at a time.

    E = exp(query @ key.T * scale)            (those of later keys are 0 if the attention is causal)
    result = E @ value / sums of E's rows

The large matrix E is passed over as little as can be, and not kept: the division by the sums is done on the result,
backward computes it again (with the logarithms of the sums it is E / sums at once) and takes the sums of gradient times
weight from the result too. It runs on ndarrays; the composed form in attention.py
is the definition, and serves all other kinds of array and derivatives of higher order.
"""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy import ndarray

from pellucid.core.kinds import plain
from pellucid.core.primitive import add_up, constant, general
from pellucid.core.record import bind
from pellucid.ops.matmul import matmul_row, swap
from pellucid.ops.nn import attention_loops
from pellucid.ops.nn.recurrence import all_plain, recomputed
from pellucid.ops.nn.workers import in_parts
from pellucid.ops.softmax import BLOCK, exponentials, softmax_back_row

matmul, multiply, subtract = np.matmul, np.multiply, np.subtract


@lru_cache(maxsize=32)
def causal_bias(queries: int, keys: int, dtype: np.dtype) -> ndarray:
    """0 where a query may look, at keys that are not later than it, and -inf elsewhere."""
    later = np.arange(keys) > np.arange(queries)[:, None]
    bias = np.where(later, dtype.type(-np.inf), dtype.type(0))
    bias.flags.writeable = False
    return bias


def _heads(x: ndarray) -> ndarray:
    """All leading dimensions as one."""
    return x.reshape(-1, *x.shape[-2:])


def _scaled_heads(query: ndarray, scale: float) -> ndarray:
    return _heads(multiply(query, query.dtype.type(scale), order="C"))


def _few_heads(part: slice, queries: int, keys: int) -> list[slice]:
    """So many heads at a time that their scores stay in the cache."""
    step = max(1, BLOCK // max(1, queries * keys))
    return [slice(begin, min(begin + step, part.stop)) for begin in range(part.start, part.stop, step)]


def _microseconds(scores: int) -> float:
    """About how long forward takes on one core; backward takes three times as long."""
    return scores * 4e-3


def _forward(query: ndarray, key: ndarray, value: ndarray, causal: bool, scale: float) -> tuple[ndarray, ...]:
    """The result, and the logarithms of the sums of E's rows."""
    if attention_loops.fit(query, key, value):
        return attention_loops.forward(query, key, value, causal, scale)
    q, k, v = _scaled_heads(query, scale), _heads(key), _heads(value)
    count, queries, keys = len(q), q.shape[1], k.shape[1]
    levels, out = np.empty((count, queries, 1), q.dtype), np.empty((count, queries, v.shape[2]), q.dtype)
    bias = causal_bias(queries, keys, q.dtype) if causal else None

    def work(part: slice) -> None:
        for few in _few_heads(part, queries, keys):
            scores = _scores(q[few], k[few], bias)
            e = np.empty_like(scores)
            sums, shift = safe_exponentials(e.reshape(-1, keys), scores.reshape(-1, keys))
            y = matmul(e, v[few], out[few])
            y /= sums.reshape(-1, queries, 1)
            np.log(sums, sums)
            levels[few] = (sums if shift is None else sums + shift[:, 0]).reshape(-1, queries, 1)

    in_parts(work, count, _microseconds(count * queries * keys))
    leading = query.shape[:-2]
    y = out.reshape(*leading, *out.shape[1:])
    if rows_before_heads(query):
        y = np.ascontiguousarray(y.swapaxes(1, 2)).swapaxes(1, 2)
    return y, levels.reshape(*leading, queries, 1)


def rows_before_heads(query: ndarray) -> bool:
    """Whether the heads of a query were cut out of rows: then the result can be joined to rows without a copy.

    PyTorch's kernel lays its result out like the query, and programs rely on it: y.transpose(1, 2).view(...).
    """
    return isinstance(query, ndarray) and query.ndim == 4 and query.strides[1] < query.strides[2]


def _scores(q: ndarray, k: ndarray, bias: ndarray | None) -> ndarray:
    scores = matmul(q, k.swapaxes(1, 2))
    if bias is not None:
        scores += bias
    return scores


def safe_exponentials(out: ndarray, scores: ndarray) -> tuple[ndarray, ndarray | None]:
    """Write the exponentials of all rows; their sums, and what was taken off the rows before, if anything was.

    A row of nothing but -inf becomes zeros with a sum of 1.
    """
    with np.errstate(invalid="ignore"):
        sums, shift = exponentials(out, scores)
    if shift is not None:
        masked = shift[:, 0] == -np.inf
        if np.count_nonzero(masked):
            out[masked] = shift[masked] = 0
            sums[masked] = 1
    return sums, shift


def _back(
    g: ndarray, query: ndarray, key: ndarray, value: ndarray, out: ndarray, levels: ndarray, causal: bool, scale: float
) -> tuple[ndarray, ...]:
    """The gradients of query, key and value: with P = E / sums, that of a score is P (g v - sum of g times result)."""
    if attention_loops.fit(query, key, value):
        return attention_loops.gradients(g, query, key, value, out, levels, causal, scale)
    q, found = _scaled_heads(query, scale), tuple([np.empty(each.shape, g.dtype) for each in (query, key, value)])
    g, k, v, y, level = [_heads(each) for each in (g, key, value, out, levels)]
    dq, dk, dv = [_heads(each) for each in found]
    queries, keys = q.shape[1], k.shape[1]
    bias = causal_bias(queries, keys, q.dtype) if causal else None

    def work(part: slice) -> None:
        for few in _few_heads(part, queries, keys):
            shares = _scores(q[few], k[few], bias)
            shares -= level[few]
            np.exp(shares, shares)
            matmul(shares.swapaxes(1, 2), g[few], dv[few])
            slope = matmul(g[few], v[few].swapaxes(1, 2))
            slope -= np.vecdot(g[few], y[few])[..., None]
            slope *= shares
            matmul(slope, k[few], dq[few])
            matmul(slope.swapaxes(1, 2), q[few], dk[few])

    in_parts(work, len(q), 3 * _microseconds(len(q) * queries * keys))
    multiply(found[0], found[0].dtype.type(scale), found[0])
    return found


attention_back_row = bind(constant("attention_back", _back, 6, outputs=3))


def _pullback(g: Any, y: Any, a: Any, b: Any, c: Any, causal: bool, scale: float) -> Any:
    if not all_plain((g[0], a, b, c)):
        from pellucid.ops.nn.attention import composed

        return recomputed(composed, g[:1], (a, b, c), causal, scale)
    return attention_back_row(g[0], a, b, c, *y, causal, scale)


def _jvp(tangents: Any, y: Any, inputs: Any, params: Any) -> Any:
    """Only the result has a tangent: what backward takes up is made anew where derivatives are of higher order."""
    from pellucid.ops.nn.attention import safe_softmax_row

    (tq, tk, tv), (query, key, value), (causal, scale) = tangents, inputs, params
    scores = matmul_row(query * scale, swap(key))
    if causal:
        scores = scores + causal_bias(query.shape[-2], key.shape[-2], plain(scores.dtype))
    shares = safe_softmax_row(scores, scores.ndim - 1)
    moved = add_up(
        term
        for term in (
            None if tq is None else matmul_row(tq * scale, swap(key)),
            None if tk is None else matmul_row(query * scale, swap(tk)),
        )
        if term is not None
    )
    terms = [None if moved is None else matmul_row(softmax_back_row(moved, shares, shares.ndim - 1), value)]
    terms.append(None if tv is None else matmul_row(shares, tv))
    return add_up(term for term in terms if term is not None), None


# attention_row(query, key, value, causal, scale): the result, and what backward takes up
attention_row = bind(
    general(
        "attention", _forward, None, None, None, pullback=_pullback, jvp=_jvp, outputs=2, dtypes="equal",
        batch=lambda op, *arguments: op(*arguments), grad_name="ScaledDotProductFlashAttentionForCpuBackward0",
    )
)  # fmt: skip
