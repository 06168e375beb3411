"""The Transformer: encoder and decoder layers of attention and a small network, and stacks of them."""

import copy
from collections.abc import Callable
from typing import Any

from pellucid.nn import functional, init
from pellucid.nn.modules.container import ModuleList
from pellucid.nn.modules.dropout import Dropout
from pellucid.nn.modules.linear import Linear
from pellucid.nn.modules.module import Module
from pellucid.nn.modules.multihead import MultiheadAttention
from pellucid.nn.modules.normalization import LayerNorm
from pellucid.ops.create import full

__all__ = [
    "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder", "TransformerEncoderLayer",
]  # fmt: skip

Activation = str | Callable[[Any], Any]


def _activation(given: Activation) -> Callable[[Any], Any]:
    """A function, given as itself or by its name."""
    if callable(given):
        return given
    if given not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {given}")
    return getattr(functional, given)  # type: ignore[no-any-return]


class _Layer(Module):
    """What encoder and decoder layers share: attention, the network after it, and where the norms go.

    Each block's result is added to its input; the norm is of the sum, or with `norm_first` of the block's input.
    """

    def _build(
        self, attentions: tuple[str, ...], d_model: int, nhead: int, dim_feedforward: int, dropout: float,
        activation: Activation, layer_norm_eps: float, batch_first: bool, norm_first: bool, bias: bool, options: Any,
    ) -> None:  # fmt: skip
        for name in attentions:
            attention = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **options)
            setattr(self, name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias, **options)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **options)
        self.norm_first = norm_first
        blocks = range(1, len(attentions) + 2)
        for i in blocks:
            setattr(self, f"norm{i}", LayerNorm(d_model, layer_norm_eps, bias=bias, **options))
        for i in blocks:
            setattr(self, f"dropout{i}", Dropout(dropout))
        self.activation = _activation(activation)

    def _added(self, x: Any, norm: Module, block: Callable[..., Any], *args: Any) -> Any:
        """The input plus what a block makes of it, with the norm before or after."""
        if self.norm_first:
            return x + block(norm(x), *args)
        return norm(x + block(x, *args))

    def _sa_block(self, x: Any, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False) -> Any:
        """Self-attention."""
        return self.dropout1(
            self.self_attn(
                x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask, need_weights=False,
                is_causal=is_causal,
            )[0]
        )  # fmt: skip


class TransformerEncoderLayer(_Layer):
    """Self-attention, then a network of two linear layers, each added to its input and normalised.

    >>> import pellucid as torch
    >>> torch.nn.TransformerEncoderLayer(d_model=8, nhead=2)(torch.zeros(5, 3, 8)).shape
    torch.Size([5, 3, 8])
    """

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: Activation = "relu", layer_norm_eps: float = 1e-5, batch_first: bool = False,
        norm_first: bool = False, bias: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._build(
            ("self_attn",), d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
            norm_first, bias, {"device": device, "dtype": dtype},
        )  # fmt: skip
        named = {functional.relu: 1, functional.gelu: 2}  # what PyTorch looks at when it loads the layer
        self.activation_relu_or_gelu = named.get(self.activation, 0)

    def forward(self, src: Any, src_mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool = False) -> Any:
        """The sequence after this layer; masks as MultiheadAttention takes them."""
        x = self._added(src, self.norm1, self._sa_block, src_mask, src_key_padding_mask, is_causal)
        return self._added(x, self.norm2, self._ff_block)

    def _ff_block(self, x: Any) -> Any:
        """The network."""
        return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to an encoder's output (the memory), then a network of two linear layers.

    >>> import pellucid as torch
    >>> layer = torch.nn.TransformerDecoderLayer(d_model=8, nhead=2)
    >>> layer(torch.zeros(5, 3, 8), torch.zeros(7, 3, 8)).shape
    torch.Size([5, 3, 8])
    """

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: Activation = "relu", layer_norm_eps: float = 1e-5, batch_first: bool = False,
        norm_first: bool = False, bias: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._build(
            ("self_attn", "multihead_attn"), d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps,
            batch_first, norm_first, bias, {"device": device, "dtype": dtype},
        )  # fmt: skip

    def forward(
        self, tgt: Any, memory: Any, tgt_mask: Any = None, memory_mask: Any = None, tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None, tgt_is_causal: bool = False, memory_is_causal: bool = False,
    ) -> Any:  # fmt: skip
        """The sequence after this layer; masks as MultiheadAttention takes them."""
        x = self._added(tgt, self.norm1, self._sa_block, tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        x = self._added(
            x, self.norm2, self._mha_block, memory, memory_mask, memory_key_padding_mask, memory_is_causal
        )  # fmt: skip
        return self._added(x, self.norm3, self._ff_block)

    def _mha_block(
        self, x: Any, mem: Any, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False
    ) -> Any:  # fmt: skip
        """Attention to the memory."""
        return self.dropout2(
            self.multihead_attn(
                x, mem, mem, attn_mask=attn_mask, key_padding_mask=key_padding_mask, need_weights=False,
                is_causal=is_causal,
            )[0]
        )  # fmt: skip

    def _ff_block(self, x: Any) -> Any:
        """The network."""
        return self.dropout3(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerEncoder(Module):
    """A stack of copies of an encoder layer, with a norm at the end if one is given.

    `enable_nested_tensor` and `mask_check` are accepted: there are no nested tensors here to be quicker with.

    >>> import pellucid as torch
    >>> layer = torch.nn.TransformerEncoderLayer(d_model=8, nhead=2)
    >>> torch.nn.TransformerEncoder(layer, num_layers=3)(torch.zeros(5, 3, 8)).shape
    torch.Size([5, 3, 8])
    """

    def __init__(
        self, encoder_layer: Module, num_layers: int, norm: Module | None = None, enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.layers = ModuleList(copy.deepcopy(encoder_layer) for _ in range(num_layers))
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.use_nested_tensor = False
        self.mask_check = mask_check

    def forward(
        self, src: Any, mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool | None = None
    ) -> Any:
        """The sequence after all layers."""
        for layer in self.layers:
            src = layer(
                src, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=bool(is_causal)
            )  # fmt: skip
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """A stack of copies of a decoder layer, with a norm at the end if one is given.

    >>> import pellucid as torch
    >>> layer = torch.nn.TransformerDecoderLayer(d_model=8, nhead=2)
    >>> torch.nn.TransformerDecoder(layer, num_layers=2)(torch.zeros(5, 3, 8), torch.zeros(7, 3, 8)).shape
    torch.Size([5, 3, 8])
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = ModuleList(copy.deepcopy(decoder_layer) for _ in range(num_layers))
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self, tgt: Any, memory: Any, tgt_mask: Any = None, memory_mask: Any = None, tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None, tgt_is_causal: bool | None = None, memory_is_causal: bool = False,
    ) -> Any:  # fmt: skip
        """The sequence after all layers."""
        for layer in self.layers:
            tgt = layer(
                tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=bool(tgt_is_causal),
                memory_is_causal=memory_is_causal,
            )  # fmt: skip
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder and a decoder that attends to its output (Vaswani et al., 2017).

    >>> import pellucid as torch
    >>> model = torch.nn.Transformer(8, nhead=2, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=16)
    >>> model(torch.zeros(7, 3, 8), torch.zeros(5, 3, 8)).shape
    torch.Size([5, 3, 8])
    """

    def __init__(
        self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6, num_decoder_layers: int = 6,
        dim_feedforward: int = 2048, dropout: float = 0.1, activation: Activation = "relu",
        custom_encoder: Any = None, custom_decoder: Any = None, layer_norm_eps: float = 1e-5,
        batch_first: bool = False, norm_first: bool = False, bias: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        sizes = d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias
        options: dict[str, Any] = {"device": device, "dtype": dtype}
        stacks = {
            "encoder": (custom_encoder, TransformerEncoderLayer, TransformerEncoder, num_encoder_layers),
            "decoder": (custom_decoder, TransformerDecoderLayer, TransformerDecoder, num_decoder_layers),
        }
        for name, (given, layer, stack, count) in stacks.items():
            if given is None:
                made = layer(*sizes, **options)
                given = stack(made, count, LayerNorm(d_model, layer_norm_eps, bias=bias, **options))
            setattr(self, name, given)
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self, src: Any, tgt: Any, src_mask: Any = None, tgt_mask: Any = None, memory_mask: Any = None,
        src_key_padding_mask: Any = None, tgt_key_padding_mask: Any = None, memory_key_padding_mask: Any = None,
        src_is_causal: bool | None = None, tgt_is_causal: bool | None = None, memory_is_causal: bool = False,
    ) -> Any:  # fmt: skip
        """The target sequence after the decoder, which attends to the source after the encoder."""
        if src.dim() == 3 and src.shape[not self.batch_first] != tgt.shape[not self.batch_first]:
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(
            src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal
        )  # fmt: skip
        return self.decoder(
            tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )  # fmt: skip

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Any:
        """The causal mask: -inf above the diagonal, so that no position sees a later one; 0 elsewhere.

        >>> import pellucid as torch
        >>> torch.nn.Transformer.generate_square_subsequent_mask(2)
        tensor([[0., -inf],
                [0., 0.]])
        """
        return full((sz, sz), float("-inf"), device=device, dtype=dtype).triu(1)
