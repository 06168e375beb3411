"""Attention with several heads: projections of queries, keys and values, attention, a projection of the result."""

import math
import warnings
from typing import Any, NamedTuple

from pellucid.core.flags import Truth
from pellucid.ops.affine import baddbmm, linear
from pellucid.ops.arguments import expect, is_floating, refusal
from pellucid.ops.axes import transpose
from pellucid.ops.create import zeros
from pellucid.ops.join import cat
from pellucid.ops.masked import masked_fill
from pellucid.ops.matmul import bmm
from pellucid.ops.nn.attention import scaled_dot_product_attention
from pellucid.ops.nn.dropout import dropout
from pellucid.ops.nn.padding import pad
from pellucid.ops.operation import COMPOSED, Draw, Sample, call, operation
from pellucid.ops.reduce import mean
from pellucid.ops.shape import reshape, squeeze, unsqueeze
from pellucid.ops.softmax import softmax
from pellucid.ops.split import chunk


def _require(fits: bool, what: str) -> None:
    """PyTorch refuses the arguments of this function with AssertionError."""
    if not fits:
        raise refusal(AssertionError, what)


class Heads(NamedTuple):
    """The sizes of one call."""

    queries: int
    batch: int
    heads: int
    size: int  # of one head

    @property
    def width(self) -> int:
        """All heads side by side."""
        return self.heads * self.size

    def apart(self, x: Any) -> Any:
        """(length, batch, width) as (batch * heads, length, size of a head)."""
        return transpose(reshape(x, (x.shape[0], self.batch * self.heads, self.size)), 0, 1)

    def by_batch(self, x: Any) -> Any:
        """(batch * heads, ...) as (batch, heads, ...)."""
        return reshape(x, (self.batch, self.heads, *x.shape[1:]))

    def together(self, x: Any) -> Any:
        """(batch * heads, queries, size) as (queries, batch, width)."""
        return reshape(transpose(x, 0, 1), (self.queries, self.batch, self.width))


# --- arguments


def _check_ranks(query: Any, key: Any, value: Any, padding: Any, mask: Any, heads: int) -> bool:
    """Whether the inputs are a batch."""
    _require(
        query.ndim in (2, 3),
        f"query should be unbatched 2D or batched 3D tensor but received {query.ndim}-D query tensor",
    )
    rank, word = query.ndim, "batched (3-D)" if query.ndim == 3 else "unbatched (2-D)"
    _require(
        key.ndim == value.ndim == rank,
        f"For {word} `query`, expected `key` and `value` to be {rank}-D but found {key.ndim}-D and {value.ndim}-D "
        "tensors respectively",
    )
    if padding is not None:
        what = f"For {word} `query`, expected `key_padding_mask` to be `None` or {rank - 1}-D but found "
        _require(padding.ndim == rank - 1, f"{what}{padding.ndim}-D tensor instead")
    if mask is not None:
        what = f"For {word} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found "
        _require(mask.ndim in (2, 3), f"{what}{mask.ndim}-D tensor instead")
        expected = (heads, query.shape[0], key.shape[0])
        if rank == 2 and mask.ndim == 3:
            what = f"Expected `attn_mask` shape to be {expected} but got {mask.shape}"
            _require(tuple(mask.shape) == expected, what)
    return rank == 3


def _added(mask: Any, name: str, dtype: Any) -> Any:
    """A mask that is added to the scores: -inf where a mask of truth values says that a key is hidden."""
    if mask is None or is_floating(mask):
        return mask
    _require(mask.array.dtype.kind == "b", f"only bool and floating types of {name} are supported")
    return masked_fill(zeros(tuple(mask.shape), dtype=dtype), mask, -math.inf)


def _check_mask(mask: Any, sizes: Heads, keys: int) -> Any:
    """An attention mask of three dimensions."""
    if mask.ndim == 2:
        expected: tuple[int, ...] = (sizes.queries, keys)
    else:
        expected = (sizes.batch * sizes.heads, sizes.queries, keys)
    what = f"The shape of the {mask.ndim}D attn_mask is {mask.shape}, but should be {expected}."
    expect(tuple(mask.shape) == expected, what)
    return unsqueeze(mask, 0) if mask.ndim == 2 else mask


def _as_batch(query: Any, key: Any, value: Any) -> tuple[Any, Any, Any]:
    """One example as a batch of one; what was the same tensor stays the same."""
    made = {id(x): unsqueeze(x, 1) for x in (query, key, value)}
    return made[id(query)], made[id(key)], made[id(value)]


def _sizes(query: Any, width: int, heads: int) -> Heads:
    length, batch, given = query.shape
    _require(given == width, f"was expecting embedding dimension of {width}, but got {given}")
    sizes = Heads(length, batch, heads, width // heads)
    _require(sizes.width == width, f"embed_dim {width} not divisible by num_heads {heads}")
    return sizes


def _masks(query: Any, padding: Any, mask: Any, is_causal: bool) -> tuple[Any, Any]:
    """The attention mask and that of padded keys, as numbers to add."""
    if padding is not None and mask is not None and padding.dtype != mask.dtype:
        text = "Support for mismatched key_padding_mask and attn_mask is deprecated. Use same type for both instead."
        warnings.warn(text, stacklevel=3)
    expect(
        not is_causal or mask is not None,
        "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
        "`generate_square_subsequent_mask` to create this mask.",
    )
    return _added(mask, "attn_mask", query.dtype), _added(padding, "key_padding_mask", query.dtype)


# --- projections


def _projected(query: Any, key: Any, value: Any, weight: Any, bias: Any, weights: Any) -> tuple[Any, Any, Any]:
    if weights is not None:
        what = f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}"
        _require(key.shape[:2] == value.shape[:2], what)
        return _separate(query, key, value, weights, bias)
    _require(key.shape == value.shape, f"key shape {key.shape} does not match value shape {value.shape}")
    _require(weight is not None, "use_separate_proj_weight is False but in_proj_weight is None")
    return _packed(query, key, value, weight, bias)


def _packed(query: Any, key: Any, value: Any, weight: Any, bias: Any) -> tuple[Any, Any, Any]:
    """Three projections from one weight; what is the same tensor is projected in one product."""
    width = query.shape[-1]
    if key is value and query is key:
        return tuple(chunk(linear(query, weight, bias), 3, -1))  # type: ignore[return-value]
    parts = [None] * 3 if bias is None else [bias[i * width : (i + 1) * width] for i in range(3)]
    weights = [weight[i * width : (i + 1) * width] for i in range(3)]
    return tuple(map(linear, (query, key, value), weights, parts))  # type: ignore[return-value]


def _separate(query: Any, key: Any, value: Any, weights: tuple[Any, Any, Any], bias: Any) -> tuple[Any, Any, Any]:
    """Three projections from three weights, whose inputs may differ in size."""
    for name, weight in zip(("q_proj_weight", "k_proj_weight", "v_proj_weight"), weights, strict=True):
        _require(weight is not None, f"use_separate_proj_weight is True but {name} is None")
    parts = (None, None, None) if bias is None else chunk(bias, 3)
    return tuple(map(linear, (query, key, value), weights, parts))  # type: ignore[return-value]


def _static(given: Any, x: Any, name: str, sizes: Heads) -> Any:
    """Keys or values that are given as heads already, or those projected."""
    if given is None:
        return sizes.apart(x)
    rows, size = sizes.batch * sizes.heads, sizes.size
    _require(given.shape[0] == rows, f"expecting {name}.size(0) of {rows}, but got {given.shape[0]}")
    _require(given.shape[2] == size, f"expecting {name}.size(2) of {size}, but got {given.shape[2]}")
    return given


# --- attention


def _attended(
    sizes: Heads, q: Any, k: Any, v: Any, mask: Any, chance: float, causal: bool, need_weights: bool
) -> tuple[Any, Any]:
    """The attended values and, if they are needed, the weights: (batch, heads, queries, keys)."""
    if not need_weights:
        return _without_weights(sizes, q, k, v, mask, chance, causal), None
    scaled = q * math.sqrt(1.0 / q.shape[-1])
    scores = bmm(scaled, transpose(k, 1, 2)) if mask is None else baddbmm(mask, scaled, transpose(k, 1, 2))
    weights = softmax(scores, -1)
    if chance:
        weights = dropout(weights, chance)
    return bmm(weights, v), sizes.by_batch(weights)


def _without_weights(sizes: Heads, q: Any, k: Any, v: Any, mask: Any, chance: float, causal: bool) -> Any:
    if mask is not None:
        mask = unsqueeze(mask, 0) if mask.shape[0] == 1 else sizes.by_batch(mask)
    parts = (sizes.by_batch(x) for x in (q, k, v))
    attended = scaled_dot_product_attention(*parts, mask, chance, causal)
    return reshape(attended, (sizes.batch * sizes.heads, sizes.queries, sizes.size))


def _hidden_keys(padding: Any, mask: Any, sizes: Heads, count: int) -> Any:
    """The mask of padded keys, joined with the attention mask."""
    batch, keys = padding.shape
    _require(batch == sizes.batch, f"Expected key_padded_mask.shape[0] to be {sizes.batch}, but got {batch}")
    _require(keys == count, f"Expected key_padded_mask.shape[1] to be {count}, but got {keys}")
    each = padding.reshape(batch, 1, 1, keys).expand(-1, sizes.heads, -1, -1)
    each = reshape(each, (batch * sizes.heads, 1, keys))
    return each if mask is None else mask + each


def _samples(draw: Draw) -> list[Sample]:
    def projections(width: int) -> list[Any]:
        return [draw(3 * width, width), draw(3 * width), None, None, False, 0.0, draw(width, width), draw(width)]

    x, y, z = draw(3, 2, 4), draw(5, 2, 4), draw(5, 2, 4)
    rows = [draw(4, 4) for _ in range(3)]
    return [
        call(x, x, x, 4, 2, *projections(4)), call(x, y, z, 4, 2, *projections(4), need_weights=False),
        call(draw(3, 4), draw(5, 4), draw(5, 4), 4, 2, *projections(4), average_attn_weights=False),
        call(x, y, y, 4, 2, *projections(4), key_padding_mask=draw.integers(2, 5, high=1).bool()),
        call(
            x, y, z, 4, 2, None, None, draw(1, 1, 4), draw(1, 1, 4), True, 0.0, draw(4, 4), None, attn_mask=draw(3, 5),
            use_separate_proj_weight=True, q_proj_weight=rows[0], k_proj_weight=rows[1], v_proj_weight=rows[2],
        ),
    ]  # fmt: skip


@operation(samples=_samples, module="torch.nn.functional", unclaimed=COMPOSED)
def multi_head_attention_forward(
    query: Any, key: Any, value: Any, embed_dim_to_check: int, num_heads: int, in_proj_weight: Any,
    in_proj_bias: Any, bias_k: Any, bias_v: Any, add_zero_attn: Truth, dropout_p: float, out_proj_weight: Any,
    out_proj_bias: Any, training: Truth = True, key_padding_mask: Any = None, need_weights: Truth = True,
    attn_mask: Any = None, use_separate_proj_weight: Truth = False, q_proj_weight: Any = None,
    k_proj_weight: Any = None, v_proj_weight: Any = None, static_k: Any = None, static_v: Any = None,
    average_attn_weights: Truth = True, is_causal: Truth = False,
) -> tuple[Any, Any]:  # fmt: skip
    """What nn.MultiheadAttention computes: the result (L, N, E) and the weights (N, L, S), or None.

    >>> import pellucid as torch
    >>> x, w = torch.ones(2, 1, 4), torch.eye(4)
    >>> attend = torch.nn.functional.multi_head_attention_forward
    >>> attend(x, x, x, 4, 2, w.repeat(3, 1), None, None, None, False, 0.0, w, None)[1]
    tensor([[[0.5000, 0.5000],
             [0.5000, 0.5000]]])
    """
    batched = _check_ranks(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        query, key, value = _as_batch(query, key, value)
        key_padding_mask = None if key_padding_mask is None else unsqueeze(key_padding_mask, 0)
    sizes = _sizes(query, embed_dim_to_check, num_heads)
    mask, padding = _masks(query, key_padding_mask, attn_mask, is_causal)
    causal = is_causal and padding is None and not need_weights  # then the mask needs not be looked at
    weights = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    q, k, v = _projected(query, key, value, in_proj_weight, in_proj_bias, weights)
    mask = None if causal or mask is None else _check_mask(mask, sizes, key.shape[0])
    k, v, mask, padding = _with_bias(k, v, mask, padding, bias_k, bias_v, static_k, static_v, sizes.batch)
    q, k, v = sizes.apart(q), _static(static_k, k, "static_k", sizes), _static(static_v, v, "static_v", sizes)
    if add_zero_attn:
        nothing = zeros(sizes.batch * num_heads, 1, sizes.size, dtype=k.dtype)
        k, v, mask, padding = cat([k, nothing], 1), cat([v, nothing], 1), _longer(mask), _longer(padding)
    if padding is not None:
        mask = _hidden_keys(padding, mask, sizes, k.shape[1])
    result, shares = _attended(sizes, q, k, v, mask, dropout_p if training else 0.0, causal, need_weights)
    result = linear(sizes.together(result), out_proj_weight, out_proj_bias)
    if shares is not None and average_attn_weights:
        shares = mean(shares, 1)
    if batched:
        return result, shares
    return squeeze(result, 1), None if shares is None else squeeze(shares, 0)


def _longer(mask: Any) -> Any:
    """A mask with room for one more key, which nothing hides."""
    return None if mask is None else pad(mask, (0, 1))


def _with_bias(
    k: Any, v: Any, mask: Any, padding: Any, bias_k: Any, bias_v: Any, static_k: Any, static_v: Any, batch: int
) -> tuple[Any, Any, Any, Any]:
    """Keys and values with one more of each, which is learned."""
    if bias_k is None and bias_v is None:
        return k, v, mask, padding
    _require(bias_v is not None, "bias_k is set but bias_v is None")
    _require(bias_k is not None, "bias_v is set but bias_k is None")
    _require(static_k is None, "bias cannot be added to static key.")
    _require(static_v is None, "bias cannot be added to static value.")
    k, v = (cat([x, bias.expand(1, batch, bias.shape[-1])]) for x, bias in ((k, bias_k), (v, bias_v)))
    return k, v, _longer(mask), _longer(padding)
