"""torch.nn.attention.flex_attention: attention whose scores and mask a function of the positions decides.

A `score_mod(score, b, h, q, kv)` changes a score, a `mask_mod(b, h, q, kv)` says which are allowed; both are written
for one score and mapped over all of them. Scores are held as one array: a BlockMask saves no work here, and what it
tells of its blocks is what PyTorch's tells.
"""

import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypedDict

import pellucid as torch
from pellucid.errors import explain

__all__ = [
    "AuxOutput", "AuxRequest", "BlockMask", "FlexKernelOptions", "and_masks", "create_block_mask", "create_mask",
    "flex_attention", "noop_mask", "or_masks",
]  # fmt: skip

SIZE = 128  # of a block, unless told


class FlexKernelOptions(TypedDict, total=False):
    """Settings of PyTorch's GPU kernels; taken, and of no effect."""

    BACKEND: str
    BLOCK_M: int
    BLOCK_N: int
    PRESCALE_QK: bool
    ROWS_GUARANTEED_SAFE: bool
    BLOCKS_ARE_CONTIGUOUS: bool
    WRITE_DQ: bool
    num_warps: int
    num_stages: int


class AuxRequest(NamedTuple):
    """What to return besides the result."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What was asked for besides the result."""

    lse: Any = None
    max_scores: Any = None


def noop_mask(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    """Everything may attend to everything.

    >>> import pellucid as torch
    >>> create_mask(noop_mask, None, None, 2, 2).all()
    tensor(True)
    """
    return batch.new_ones((), dtype=torch.bool)


def and_masks(*mask_mods: Callable[..., Any]) -> Callable[..., Any]:
    """What all of the masks allow.

    >>> import pellucid as torch
    >>> near = and_masks(lambda b, h, q, kv: q >= kv, lambda b, h, q, kv: q - kv < 2)
    >>> create_mask(near, None, None, 3, 3).int()
    tensor([[[[1, 0, 0],
              [1, 1, 0],
              [0, 1, 1]]]], dtype=torch.int32)
    """
    return _joined(mask_mods, True, torch.bitwise_and)


def or_masks(*mask_mods: Callable[..., Any]) -> Callable[..., Any]:
    """What one of the masks allows.

    >>> import pellucid as torch
    >>> either = or_masks(lambda b, h, q, kv: q == kv, lambda b, h, q, kv: kv == 0)
    >>> create_mask(either, None, None, 3, 3).int()
    tensor([[[[1, 0, 0],
              [1, 1, 0],
              [1, 0, 1]]]], dtype=torch.int32)
    """
    return _joined(mask_mods, False, torch.bitwise_or)


def _joined(mask_mods: tuple[Any, ...], start: bool, join: Callable[..., Any]) -> Callable[..., Any]:
    if not all(callable(each) for each in mask_mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")

    def mask(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        result = b.new_full((), start, dtype=torch.bool)
        for each in mask_mods:
            result = join(result, each(b, h, q_idx, kv_idx))
        return result

    return mask


def _takes_scores(mod: Callable[..., Any]) -> bool:
    """Whether a function is a score_mod, of five arguments, and not a mask_mod, of four."""
    needed = sum(each.default is inspect.Parameter.empty for each in inspect.signature(mod).parameters.values())
    if needed not in (4, 5):
        raise AssertionError(f"Expected 4 or 5 positional args, got {needed}")
    return needed == 5


def _mapped(mod: Callable[..., Any], sizes: tuple[int, ...], scores: tuple[Any, ...] = ()) -> Any:
    """A function of one score and four positions, of all of them."""
    for axis in (3, 2, 1, 0):  # the innermost map is over the keys
        positions = tuple(0 if each == axis else None for each in range(4))
        mod = torch.vmap(mod, in_dims=(0,) * len(scores) + positions)
    result: Any = mod(*scores, *(torch.arange(size) for size in sizes))
    return result


def create_mask(
    mod_fn: Callable[..., Any], B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None
) -> Any:
    """The mask that a function makes, an entry for each score; of a score_mod, what it does not make minus infinity.

    >>> import pellucid as torch
    >>> create_mask(lambda b, h, q, kv: q >= kv, 1, 1, 2, 2)
    tensor([[[[ True, False],
              [ True,  True]]]])
    """
    sizes = (B or 1, H or 1, Q_LEN, KV_LEN)
    if _takes_scores(mod_fn):
        return ~torch.isneginf(_mapped(mod_fn, sizes, (torch.zeros(sizes),)))
    return _mapped(mod_fn, sizes)


def _listed(dense: Any) -> tuple[Any, Any]:
    """How many blocks of each row are there, and their columns first."""
    order = torch.argsort(dense.int(), dim=-1, descending=True, stable=True)
    return dense.sum(-1).int(), order.int()


def _spread(count: Any, columns: Any) -> Any:
    """The opposite of `_listed`: 1 where a block is."""
    held = (torch.arange(columns.shape[-1]) < count.unsqueeze(-1)).int()
    return torch.zeros_like(columns).scatter(-1, columns.long(), held)


def _of_queries(count: Any, columns: Any) -> tuple[Any, Any]:
    """The same blocks listed by columns."""
    return (None, None) if count is None or columns is None else _listed(_spread(count, columns).transpose(-2, -1))


class BlockMask:
    """A mask as blocks of scores: which hold something, and which of these are wholly allowed.

    >>> import pellucid as torch
    >>> mask = create_block_mask(lambda b, h, q, kv: q >= kv, 1, 1, 256, 256)
    >>> mask.shape, mask.sparsity(), mask.to_dense().tolist()
    ((1, 1, 256, 256), 25.0, [[[[1, 0], [1, 1]]]])
    """

    def __init__(
        self, seq_lengths: tuple[int, int], kv_num_blocks: Any, kv_indices: Any,
        full_kv_num_blocks: Any, full_kv_indices: Any, q_num_blocks: Any,
        q_indices: Any, full_q_num_blocks: Any, full_q_indices: Any,
        BLOCK_SIZE: tuple[int, int], mask_mod: Callable[..., Any],
    ) -> None:  # fmt: skip
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        self.seq_lengths, self.BLOCK_SIZE, self.mask_mod = seq_lengths, BLOCK_SIZE, mask_mod
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices

    @classmethod
    def from_kv_blocks(
        cls, kv_num_blocks: Any, kv_indices: Any, full_kv_num_blocks: Any = None,
        full_kv_indices: Any = None, BLOCK_SIZE: int | tuple[int, int] = SIZE,
        mask_mod: Callable[..., Any] | None = None, seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
    ) -> "BlockMask":  # fmt: skip
        """A mask of given lists of blocks."""
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError("full_kv_num_blocks and full_kv_indices must be both provided or omitted")
        size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
        rows, columns = kv_indices.shape[-2:]
        lengths = seq_lengths or (rows * size[0], columns * size[1])
        by_queries: tuple[Any, Any, Any, Any] = (None, None, None, None)
        if compute_q_blocks:
            by_queries = (*_of_queries(kv_num_blocks, kv_indices), *_of_queries(full_kv_num_blocks, full_kv_indices))
        return cls(
            lengths, kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices, *by_queries, size,
            mask_mod or noop_mask,
        )  # fmt: skip

    @property
    def shape(self) -> tuple[int, ...]:
        """Batch, heads, queries, keys."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """How many scores there are."""
        return math.prod(self.shape)

    def sparsity(self) -> float:
        """The share of scores in blocks without any that is allowed, in per cent."""
        blocks = self.kv_num_blocks.sum().item()
        if self.full_kv_num_blocks is not None:
            blocks += self.full_kv_num_blocks.sum().item()
        return 100 * (1 - blocks * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1] / self.numel())

    def to_dense(self) -> Any:
        """1 for each block that holds something allowed."""
        found = _spread(self.kv_num_blocks, self.kv_indices)
        if self.full_kv_num_blocks is not None and self.full_kv_indices is not None:
            found = found | _spread(self.full_kv_num_blocks, self.full_kv_indices)
        return found

    def to(self, device: Any) -> "BlockMask":
        """The mask itself: there is one device."""
        torch.device(device)
        return self

    def __getitem__(self, index: Any) -> "BlockMask":
        """The blocks of some batches, heads and rows; a mask_mod must be given anew, for positions have moved."""
        parts = (*(index if isinstance(index, tuple) else (index,)), slice(None), slice(None), slice(None))[:3]
        sizes = self.kv_num_blocks.shape
        kept = tuple(
            slice(i % size, i % size + 1) if isinstance(i, int) else i for i, size in zip(parts, sizes, strict=False)
        )
        full = self.full_kv_num_blocks is not None and self.full_kv_indices is not None
        return BlockMask.from_kv_blocks(
            self.kv_num_blocks[kept], self.kv_indices[kept],
            self.full_kv_num_blocks[kept] if full else None,
            self.full_kv_indices[kept] if full else None,
            self.BLOCK_SIZE, _of_a_part, self.seq_lengths, self.q_indices is not None,
        )  # fmt: skip

    def __repr__(self) -> str:
        lists = [
            f"{full}{side}_{part}"
            for side in ("kv", "q")
            for full in ("", "full_")
            for part in ("num_blocks", "indices")
        ]
        shapes = [(name, getattr(self, name)) for name in lists]
        lines = [f"{name}={None if each is None else each.shape}" for name, each in shapes]
        lines += [f"BLOCK_SIZE={self.BLOCK_SIZE}", f"shape={self.shape}", f"sparsity={self.sparsity():.2f}%"]
        lines += [f"mask_mod={getattr(self.mask_mod, '__name__', self.mask_mod)}"]
        return "BlockMask(\n    " + ",\n    ".join(lines) + "\n)"


def _of_a_part(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    raise RuntimeError(
        explain(
            "Cannot use mask_mod from a sliced BlockMask",
            why="its positions would be those of the whole mask",
            try_="part.mask_mod = lambda b, h, q, kv: whole.mask_mod(b, h, q + offset, kv)",
        )
    )


def create_block_mask(
    mask_mod: Callable[..., Any], B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = SIZE, _compile: bool = False, separate_full_blocks: bool = True,
) -> BlockMask:  # fmt: skip
    """The blocks of a mask_mod.

    >>> import pellucid as torch
    >>> create_block_mask(lambda b, h, q, kv: q >= kv, None, None, 512, 512).kv_num_blocks
    tensor([[[1, 1, 1, 1]]], dtype=torch.int32)
    """
    if _takes_scores(mask_mod):
        raise AssertionError(f"create-block_mask requires a mask_mod function! Got {mask_mod}")
    height, width = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN)
    mask = torch.nn.functional.pad(mask, (0, -KV_LEN % width, 0, -Q_LEN % height))
    blocks = mask.unflatten(-1, (-1, width)).unflatten(-3, (-1, height))
    allowed = blocks.sum((-3, -1))
    full: Any = (allowed == height * width) & separate_full_blocks
    count, columns = _listed(full) if separate_full_blocks else (None, None)
    parts = _listed((allowed > 0) & ~full)
    return BlockMask.from_kv_blocks(*parts, count, columns, (height, width), mask_mod, (Q_LEN, KV_LEN))


def flex_attention(
    query: Any, key: Any, value: Any, score_mod: Callable[..., Any] | None = None,
    block_mask: BlockMask | None = None, scale: float | None = None, enable_gqa: bool = False,
    return_lse: bool = False, kernel_options: Any = None, *, return_aux: AuxRequest | None = None,
) -> Any:  # fmt: skip
    """Attention with scores changed by `score_mod` and those alone that `block_mask` allows.

    >>> import pellucid as torch
    >>> q, k, v = torch.randn(3, 1, 2, 4, 8).unbind()
    >>> causal = create_block_mask(lambda b, h, q, kv: q >= kv, None, None, 4, 4)
    >>> result = flex_attention(q, k, v, block_mask=causal)
    >>> torch.allclose(result, torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True), atol=1e-6)
    True
    """
    _check(query, key, value, block_mask, enable_gqa)
    if return_lse and return_aux is not None:
        raise ValueError("Cannot specify both return_lse and return_aux: return_aux=AuxRequest(lse=True) is enough")
    groups = query.shape[1] // key.shape[1]
    key, value = (each.repeat_interleave(groups, 1).expand(query.shape[0], -1, -1, -1) for each in (key, value))
    precision = torch.float64 if query.dtype == torch.float64 else torch.float32
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = query.to(precision) @ key.to(precision).transpose(-2, -1) * factor
    if score_mod is not None:
        scores = _mapped(score_mod, tuple(scores.shape), (scores,)).to(precision)
    if block_mask is not None:
        scores = scores.masked_fill(~_mapped(block_mask.mask_mod, tuple(scores.shape)), -math.inf)
    nothing = (scores == -math.inf).all(-1, keepdim=True)  # a query that sees no key gives zeros, and no NaN backwards
    weights = torch.softmax(scores.masked_fill(nothing, 0.0), -1).masked_fill(nothing, 0.0)
    result = weights.to(query.dtype) @ value.to(query.dtype)
    if not (return_lse or return_aux):
        return result
    lse = scores.masked_fill(nothing, 0.0).logsumexp(-1).masked_fill(nothing[..., 0], -math.inf)
    if return_aux is None:
        return result, lse
    return result, AuxOutput(lse if return_aux.lse else None, scores.amax(-1) if return_aux.max_scores else None)


def _check(query: Any, key: Any, value: Any, block_mask: BlockMask | None, enable_gqa: bool) -> None:
    if not query.dim() == key.dim() == value.dim() == 4:
        raise NotImplementedError("NYI: query, key, and value must be 4D tensors")
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            f"Expect query and key/value to have the same embedding dimension but got "
            f"E={query.shape[-1]} and E={key.shape[-1]}."
        )
    heads, shared = query.shape[1], key.shape[1]
    if heads != shared and not enable_gqa:
        raise ValueError(
            f"Expect query and key/value to have the same number of heads but got Hq={heads} and Hkv={shared}. "
            "Try setting enable_gqa=True for GQA."
        )
    if heads % shared:
        raise ValueError(
            f"Expect number of query heads to be a multiple of kv heads for GQA but got Hq={heads} and Hkv={shared}."
        )
    if query.shape[0] != key.shape[0] and block_mask is None:
        raise ValueError(
            "Expect query and key/value to have the same batch size, or non-none block_mask, "
            f"but got block_mask=None, Bq={query.shape[0]}, and Bkv={key.shape[0]}."
        )
    if block_mask is not None and block_mask.mask_mod is _of_a_part:
        block_mask.mask_mod(query, query, query, query)
    if block_mask is not None and block_mask.shape[-2:] != (query.shape[-2], key.shape[-2]):
        raise ValueError(
            f"block_mask was created for block_mask.shape={block_mask.shape} but got q_len={query.shape[-2]} "
            f"and kv_len={key.shape[-2]}. Create a new block mask with the right lengths."
        )
