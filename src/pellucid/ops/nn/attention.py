"""Attention: every query takes a mean of the values, weighted by how well it fits their keys."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core.kinds import plain
from pellucid.core.modes import switched
from pellucid.core.primitive import general
from pellucid.core.record import bind
from pellucid.core.tensor import Tensor, wrap
from pellucid.ops.arguments import axis_of, expect, is_floating, refuse
from pellucid.ops.convert import as_type
from pellucid.ops.matmul import matmul
from pellucid.ops.nn.attention_row import attention_row, causal_bias, rows_before_heads, safe_exponentials
from pellucid.ops.nn.dropout import dropout
from pellucid.ops.nn.normalise import ONE
from pellucid.ops.operation import COMPOSED, Draw, Sample, call, operation
from pellucid.ops.repeat import repeat_interleave
from pellucid.ops.select import where
from pellucid.ops.softmax import blockwise, by_rows, softmax_back_row

# --- softmax of rows that may be masked altogether


def _safe_rows(y: np.ndarray, a: np.ndarray) -> None:
    np.divide(y, safe_exponentials(y, a)[0][:, None], y)


def _safe_softmax(a: np.ndarray, axis: int) -> np.ndarray:
    """Along the last axis block by block; a row of nothing but -inf becomes zeros instead of NaN."""
    if by_rows(a, axis):
        return blockwise(_safe_rows, np.empty(a.shape, a.dtype), a)
    rows = np.moveaxis(np.atleast_1d(a), axis, -1)
    out = np.empty(rows.shape, a.dtype)
    if out.size:
        blockwise(_safe_rows, out, np.ascontiguousarray(rows))
    return np.ascontiguousarray(np.moveaxis(out, -1, axis)).reshape(a.shape)


safe_softmax_row = bind(
    general(
        "safe_softmax", _safe_softmax,
        lambda g, y, axis: softmax_back_row(g, y, axis),
        jvp=lambda tangents, y, inputs, params: softmax_back_row(tangents[0], y, *params),
        dtypes="equal", batch=lambda op, a, axis: op(a, axis + 1),
    )
)  # fmt: skip


@operation(
    samples=lambda draw: [
        call(draw(2, 3), 1), call(draw(2, 3), 0), call(draw(4), -1), call(draw(), 0), call(draw(0, 3), 1),
        call(draw(2, 3, 4), 1), call(draw(20, 130), 1),
    ],
    name="_safe_softmax", methods=(),
)  # fmt: skip
def _safe_softmax_of(input: Any, dim: int, dtype: Any = None) -> Any:
    """Softmax along a dimension, but zeros where all elements are -inf (and softmax is NaN)."""
    input = as_type(input, dtype)
    refuse(input, "biuc", "\"softmax_lastdim_kernel_impl\" not implemented for '{}'", NotImplementedError)
    return safe_softmax_row(input, axis_of(dim, input.ndim))


# --- scaled dot products


def _check_attention(query: Any, key: Any, value: Any, mask: Any) -> None:
    q, k, v = query.array, key.array, value.array
    alike = q.dtype is k.dtype is v.dtype and is_floating(query)
    if alike and mask is None and q.ndim > 1 and k.ndim > 1 and v.ndim > 1:
        return  # by far the most frequent: the sentences below take longer to write than small heads to attend
    given = (query, key, value)
    expect(
        min(each.ndim for each in given) > 1,
        f"Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: {query.ndim} key.dim: "
        f"{key.ndim} and value.dim: {value.ndim} instead.",
    )
    expect(
        query.dtype == key.dtype == value.dtype,
        f"Expected query, key, and value to have the same dtype, but got query.dtype: {query.dtype} key.dtype: "
        f"{key.dtype} and value.dtype: {value.dtype} instead.",
    )
    expect(is_floating(query), f"expected scalar type Float but found {query.dtype}")
    expect(
        mask is None or mask.array.dtype.kind == "b" or mask.dtype in (dtypes.float32, query.dtype),
        "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: "
        f"{None if mask is None else mask.dtype} and  query.dtype: {query.dtype} instead.",
    )


def _shared_heads(query: Any, key: Any, value: Any) -> tuple[Any, Any]:
    """Keys and values repeated so that each group of query heads has its own: grouped-query attention."""
    heads, shared = query.shape[-3], key.shape[-3]
    expect(
        shared == value.shape[-3] and shared > 0 and heads % shared == 0,
        "Number of heads in key and value must divide the number of heads in query: "
        f"{heads} query heads, {key.shape[-3]} and {value.shape[-3]} of keys and values",
    )
    return tuple(repeat_interleave(each, heads // shared, -3) for each in (key, value))  # type: ignore[return-value]


def _weights(query: Any, key: Any, mask: Any, causal: bool, scale: float) -> Any:
    scores = matmul(query * scale, key.mT)
    if causal:
        scores = scores + wrap(causal_bias(query.shape[-2], key.shape[-2], plain(scores.array.dtype)))
    if mask is not None:
        if mask.array.dtype.kind == "b":
            mask = where(mask, 0.0, -math.inf)  # added, as in PyTorch: a score that is NaN stays so
        scores = scores + as_type(mask, scores.dtype)
    return safe_softmax_row(scores, scores.ndim - 1)


def composed(inputs: Sequence[Any], causal: bool, scale: float) -> tuple[Any]:
    """The definition of `attention_row`, in operations of the table."""
    query, key, value = inputs
    return (matmul(_weights(query, key, None, causal, scale), value),)


def _fits(query: Any, key: Any, value: Any) -> bool:
    """Whether the row takes these: floats with the same leading dimensions, none empty."""
    q, k, v = query.array.shape, key.array.shape, value.array.shape
    return plain(query.array.dtype) in ONE and q[:-2] == k[:-2] == v[:-2] and 0 not in (*q, *k, *v)


def _attention_samples(draw: Draw) -> list[Sample]:
    def three(*shape: int) -> list[Tensor]:
        return [draw(*shape) for _ in range(3)]

    return [
        call(*three(2, 4, 3)), call(*three(2, 2, 4, 3), is_causal=True), call(draw(3, 2), draw(5, 2), draw(5, 4)),
        call(draw(2, 3, 2), draw(2, 5, 2), draw(2, 5, 4), draw(3, 5)), call(*three(2, 4, 3), draw.mask(4, 4)),
        call(draw(2, 3, 2), draw(2, 5, 2), draw(2, 5, 4), is_causal=True, scale=0.3),
        call(draw(4, 3, 2), draw(2, 3, 2), draw(2, 3, 2), enable_gqa=True), call(*three(2, 4, 3), None, 1.0),
        call(*three(2, 4, 90, 2), is_causal=True),  # more than is worked on at a time
        call(*three(1, 2, 4, 3), draw.mask(4, 4), is_causal=True),
    ]  # fmt: skip


@operation(samples=_attention_samples, module="torch.nn.functional", unclaimed=COMPOSED)
def scaled_dot_product_attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
    scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    """softmax(query @ key.mT * scale) @ value: for each query a mean of the values, weighted by their keys.

    A mask of truth values says where a query may look; a mask of numbers is added to the scores; `is_causal` lets it
    look at no later key. A query that may look nowhere gets zeros. `scale` is 1 / sqrt(last size) unless told.

    >>> import pellucid as torch
    >>> query, key, value = torch.zeros(1, 2), torch.ones(2, 2), torch.tensor([[1.0], [3.0]])
    >>> torch.nn.functional.scaled_dot_product_attention(query, key, value)
    tensor([[2.]])
    """
    _check_attention(query, key, value, attn_mask)
    expect(  # PyTorch has a kernel for both at once for (batch, heads, length, width) alone
        attn_mask is None or not is_causal or (query.ndim == 4 and not dropout_p and not attn_mask.requires_grad),
        "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True",
    )
    if enable_gqa:
        key, value = _shared_heads(query, key, value)
    factor = 1 / math.sqrt(query.array.shape[-1] or 1) if scale is None else scale
    how = (attn_mask, dropout_p, is_causal, factor)
    if query.array.dtype.itemsize > 2:
        return _attended(query, key, value, *how)
    dtype = query.dtype
    with switched(autocast=None):  # the scores of halves may be too large for them
        query, key, value = (as_type(each, dtypes.float32) for each in (query, key, value))
        return as_type(_attended(query, key, value, *how), dtype)


def _attended(
    query: Any, key: Any, value: Any, attn_mask: Any, dropout_p: float, is_causal: bool, factor: float
) -> Any:
    if attn_mask is None and not dropout_p and _fits(query, key, value):
        return attention_row(query, key, value, is_causal, factor)[0]
    weights = _weights(query, key, attn_mask, is_causal, factor)
    if dropout_p:
        expect(0 <= dropout_p <= 1, f"dropout probability has to be between 0 and 1, but got {dropout_p}")
        weights = dropout(weights, dropout_p)
    y = matmul(weights, value)
    learned = attn_mask is not None and attn_mask.requires_grad
    if dropout_p or learned or y.shape != query.shape or not rows_before_heads(query.array):
        return y
    return y.transpose(1, 2).contiguous().transpose(1, 2)
