"""MultiheadAttention: every query looks at all keys, several times side by side, and takes its share of the values."""

from typing import Any

from pellucid.nn import functional, init
from pellucid.nn.modules.linear import NonDynamicallyQuantizableLinear
from pellucid.nn.modules.module import Module
from pellucid.nn.parameter import Parameter
from pellucid.ops.create import empty

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Module):
    """Attention with several heads: gives the attended values, and the weights with which they were taken.

    Inputs are (length, batch, features), with `batch_first` (batch, length, features), or (length, features).

    >>> import pellucid as torch
    >>> attend = torch.nn.MultiheadAttention(8, num_heads=2, batch_first=True)
    >>> x = torch.zeros(3, 5, 8)
    >>> output, weights = attend(x, x, x)
    >>> output.shape, weights.shape
    (torch.Size([3, 5, 8]), torch.Size([3, 5, 5]))
    """

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, add_bias_kv: bool = False,
        add_zero_attn: bool = False, kdim: int | None = None, vdim: int | None = None, batch_first: bool = False,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                "embed_dim and num_heads must be greater than 0, "
                f"got embed_dim={embed_dim} and num_heads={num_heads} instead"
            )
        if embed_dim % num_heads:
            raise AssertionError(f"embed_dim must be divisible by num_heads, but {embed_dim} is not by {num_heads}")
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim == self.vdim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        self.add_zero_attn = add_zero_attn
        for name, shape in self._shapes(bias, add_bias_kv).items():
            parameter = None if shape is None else Parameter(empty(shape, device=device, dtype=dtype))
            self.register_parameter(name, parameter)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias, device, dtype)
        self._reset_parameters()

    def _shapes(self, bias: bool, more: bool) -> dict[str, tuple[int, ...] | None]:
        """Its parameters: one weight for all three projections if their inputs are alike, else one for each."""
        size, same = self.embed_dim, self._qkv_same_embed_dim
        separate = {"q": size, "k": self.kdim, "v": self.vdim}
        shapes: dict[str, tuple[int, ...] | None] = {"in_proj_weight": (3 * size, size) if same else None}
        shapes |= {f"{name}_proj_weight": None if same else (size, width) for name, width in separate.items()}
        shapes["in_proj_bias"] = (3 * size,) if bias else None
        return shapes | dict.fromkeys(("bias_k", "bias_v"), (1, 1, size) if more else None)

    def _reset_parameters(self) -> None:
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            weight = getattr(self, name)
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                init.xavier_normal_(extra)

    def merge_masks(self, attn_mask: Any, key_padding_mask: Any, query: Any) -> tuple[Any, int | None]:
        """Both masks as one for (batch, heads, queries, keys), and its type: None, 1 for padding alone, else 2.

        >>> import pellucid as torch
        >>> attend, x = torch.nn.MultiheadAttention(4, 2, batch_first=True), torch.zeros(3, 5, 4)
        >>> mask, kind = attend.merge_masks(torch.zeros(5, 5), torch.zeros(3, 5), x)
        >>> mask.shape, kind
        (torch.Size([3, 2, 5, 5]), 2)
        """
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        batch, length, _ = query.shape
        if attn_mask.dim() == 3:
            merged = attn_mask.view(batch, -1, length, length)
        else:
            merged = attn_mask.view(1, 1, length, length).expand(batch, self.num_heads, -1, -1)
        if key_padding_mask is not None:
            merged = merged + key_padding_mask.view(batch, 1, 1, length).expand(-1, self.num_heads, -1, -1)
        return merged, 2

    def forward(
        self, query: Any, key: Any, value: Any, key_padding_mask: Any = None, need_weights: bool = True,
        attn_mask: Any = None, average_attn_weights: bool = True, is_causal: bool = False,
    ) -> tuple[Any, Any]:  # fmt: skip
        """The attended values, and the weights (None without `need_weights`; of each head unless averaged).

        `key_padding_mask` (batch, keys) hides keys, `attn_mask` (queries, keys) hides keys from queries: where True,
        or by numbers added to the scores. `is_causal` says that the mask given is the causal one.
        """
        turned = self.batch_first and query.dim() == 3
        if turned:
            given = {id(x): x.transpose(0, 1) for x in (query, key, value)}  # what was one tensor stays one
            query, key, value = given[id(query)], given[id(key)], given[id(value)]
        output, weights = functional.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.bias_k,
            self.bias_v, self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias, self.training,
            key_padding_mask, need_weights, attn_mask, not self._qkv_same_embed_dim, self.q_proj_weight,
            self.k_proj_weight, self.v_proj_weight, None, None, average_attn_weights, is_causal,
        )  # fmt: skip
        return output.transpose(0, 1) if turned else output, weights
