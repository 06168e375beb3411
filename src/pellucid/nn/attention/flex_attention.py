"""Attention whose scores and mask are functions of where they stand: of the sample, the head, the query and the key.

>>> import pellucid as torch
>>> from pellucid.nn.attention.flex_attention import create_block_mask, flex_attention
>>> causal = create_block_mask(lambda b, h, q, k: q >= k, None, None, 2, 2, device="cpu")
>>> query = torch.tensor([[[[1.0], [2.0]]]], requires_grad=True)
>>> flex_attention(query, query, query, lambda score, b, h, q, k: score - (q - k), causal)[0, 0]
tensor([[1.0000],
        [1.9526]], grad_fn=<SelectBackward0>)

The scores are computed in full, as PyTorch computes them when nothing is compiled; and `mask_mod` alone says which of
them count. The lists of blocks, which tell PyTorch's kernels what to leave out, are kept for who asks. Here gradients
pass through; PyTorch has none on the CPU.
"""

import inspect
import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import pellucid as torch
from pellucid.core.provenance import here
from pellucid.errors import explain
from pellucid.transforms.batch import vmap

__all__ = [  # noqa: RUF022 (PyTorch's order)
    "BlockMask", "flex_attention", "AuxOutput", "AuxRequest", "FlexKernelOptions", "create_block_mask", "create_mask",
    "or_masks", "and_masks", "noop_mask",
]  # fmt: skip

Mod = Callable[..., Any]
_mask_mod_signature = _score_mod_signature = Mod
_DEFAULT_SPARSE_BLOCK_SIZE = 128
FlexKernelOptions = dict  # what a program asks of kernels: accepted, and without effect


class AuxRequest(NamedTuple):
    """What `flex_attention` shall return beside the result."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What was asked for with AuxRequest; None for the rest."""

    lse: Any = None
    max_scores: Any = None


def noop_mask(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    """The mask that lets every query see every key."""
    return batch.new_ones((), dtype=torch.bool)


def _mask_of_a_part(b: Any, h: Any, q: Any, kv: Any) -> Any:
    raise RuntimeError(
        explain(
            "Cannot use mask_mod from a sliced BlockMask",
            str(here()),
            "the function of the whole mask would be asked for places in the part",
            "create_block_mask(...) for the part",
        )
    )


# A function of one place, asked at all places -------------------------------------------------------------------------


def _everywhere(mod: Mod, *scores: Any, shape: Any) -> Any:
    """What a function of (score,) batch, head, query and key gives at every place of a (B, H, Q, K) array."""
    for dim in reversed(range(4)):
        places = tuple(0 if dim == each else None for each in range(4))
        mod = vmap(mod, in_dims=(*[0 for _ in scores], *places))
    return mod(*scores, *[torch.arange(size) for size in shape])


def _wants_score(mod: Mod) -> bool:
    """Whether a function takes five arguments, the score first, or the four of a mask."""
    parameters = inspect.signature(mod).parameters.values()
    needed = sum(each.default is each.empty for each in parameters)
    if needed not in (4, 5):
        raise AssertionError(f"Expected 4 or 5 positional args, got {needed}")
    return needed == 5


def _combined(mask_mods: tuple[Mod, ...], start: bool, join: Callable[[Any, Any], Any]) -> Mod:
    if not all(callable(each) for each in mask_mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")

    def mask(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        result = b.new_full((), start, dtype=torch.bool)
        for each in mask_mods:
            result = join(result, each(b, h, q_idx, kv_idx))
        return result

    return mask


def or_masks(*mask_mods: Mod) -> Mod:
    """The mask that lets through what one of the masks lets through.

    >>> import pellucid as torch
    >>> create_mask(or_masks(lambda b, h, q, k: q == k, lambda b, h, q, k: k == 0), None, None, 3, 3)[0, 0]
    tensor([[ True, False, False],
            [ True,  True, False],
            [ True, False,  True]])
    """
    return _combined(mask_mods, False, lambda one, other: one | other)


def and_masks(*mask_mods: Mod) -> Mod:
    """The mask that lets through what all of the masks let through.

    >>> import pellucid as torch
    >>> create_mask(and_masks(lambda b, h, q, k: q >= k, lambda b, h, q, k: q - k < 2), None, None, 3, 3)[0, 0]
    tensor([[ True, False, False],
            [ True,  True, False],
            [False,  True,  True]])
    """
    return _combined(mask_mods, True, lambda one, other: one & other)


def create_mask(mod_fn: Mod, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None) -> Any:
    """A mask as a tensor of truth values (B, H, Q_LEN, KV_LEN); a function of scores hides what it sets to -inf.

    >>> import pellucid as torch
    >>> create_mask(lambda b, h, q, k: q >= k, None, None, 2, 2)[0, 0]
    tensor([[ True, False],
            [ True,  True]])
    """
    shape = (B or 1, H or 1, Q_LEN, KV_LEN)
    if _wants_score(mod_fn):
        return ~torch.isneginf(_everywhere(mod_fn, torch.zeros(shape, device=device), shape=shape))
    return _everywhere(mod_fn, shape=shape)


# Lists of blocks ------------------------------------------------------------------------------------------------------


def _listed(dense: Any) -> tuple[Any, Any]:
    """How many blocks of each row there are, and which: those that are there come first."""
    dense = dense.to(torch.int32)
    order = torch.argsort(dense, dim=-1, descending=True, stable=True)
    return dense.sum(-1).to(torch.int32), order.to(torch.int32).contiguous()


def _spread(counts: Any, indices: Any) -> Any:
    """Zeros and ones that say of each block whether the lists have it."""
    *outer, columns = indices.shape
    there = torch.arange(columns) < counts.unsqueeze(-1)
    beside = torch.zeros(*outer, columns + 1, dtype=torch.int32)  # what stands behind the counted ones goes to the end
    return beside.scatter_(-1, torch.where(there, indices, columns).long(), 1)[..., :columns]


def _transposed(counts: Any, indices: Any) -> tuple[Any, Any]:
    if counts is None or indices is None:
        return None, None
    return _listed(_spread(counts, indices).transpose(-2, -1))


def _cut(counts: Any, indices: Any, rows: int, columns: int) -> tuple[Any, Any]:
    if counts is None or indices is None:
        return None, None
    indices, counts = indices[:, :, :rows, :columns], counts[:, :, :rows].clamp(max=columns)
    return (indices < counts[..., None]).sum(-1).to(torch.int32), indices


class BlockMask:
    """A mask as a function, and which blocks of queries and keys it lets through, wholly or in part.

    >>> import pellucid as torch
    >>> mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 4, 4, BLOCK_SIZE=2)
    >>> mask.shape, mask.sparsity(), mask.to_dense()
    ((1, 1, 4, 4), 25.0, tensor([[[[1, 0],
              [1, 1]]]], dtype=torch.int32))
    """

    LISTS = (
        "kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices",
        "q_num_blocks", "q_indices", "full_q_num_blocks", "full_q_indices",
    )  # fmt: skip

    def __init__(
        self,
        seq_lengths: tuple[int, int],
        kv_num_blocks: Any,
        kv_indices: Any,
        full_kv_num_blocks: Any,
        full_kv_indices: Any,
        q_num_blocks: Any,
        q_indices: Any,
        full_q_num_blocks: Any,
        full_q_indices: Any,
        BLOCK_SIZE: tuple[int, int] = (_DEFAULT_SPARSE_BLOCK_SIZE, _DEFAULT_SPARSE_BLOCK_SIZE),
        mask_mod: Mod = noop_mask,
    ) -> None:
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        for kind, one, other in (("kv", full_kv_num_blocks, full_kv_indices), ("q", full_q_num_blocks, full_q_indices)):
            if (one is None) != (other is None):
                raise AssertionError(f"full_{kind}_num_blocks and full_{kind}_indices must be both provided or omitted")
        self.seq_lengths, self.BLOCK_SIZE, self.mask_mod = seq_lengths, BLOCK_SIZE, mask_mod
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Any,
        kv_indices: Any,
        full_kv_num_blocks: Any = None,
        full_kv_indices: Any = None,
        BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
        mask_mod: Mod | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
    ) -> "BlockMask":
        """A mask from the blocks of keys that each block of queries looks at."""
        size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        if seq_lengths is None:
            seq_lengths = (kv_indices.shape[-2] * size[0], kv_indices.shape[-1] * size[1])
        blocks = (kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices)
        turned: tuple[Any, ...] = (None,) * 4
        if compute_q_blocks:
            turned = (*_transposed(*blocks[:2]), *_transposed(*blocks[2:]))
        tables: dict[str, Any] = dict(zip(cls.LISTS, (*blocks, *turned), strict=True))
        return cls(seq_lengths, BLOCK_SIZE=size, mask_mod=mask_mod or noop_mask, **tables)

    def _with(self, change: Callable[[Any, Any], Any], mask_mod: Mod, lengths: Any) -> "BlockMask":
        """The same mask after its lists of keys were changed."""
        counts, indices = change(self.kv_num_blocks, self.kv_indices)
        full, full_indices = change(self.full_kv_num_blocks, self.full_kv_indices)
        both = self.q_indices is not None
        return self.from_kv_blocks(counts, indices, full, full_indices, self.BLOCK_SIZE, mask_mod, lengths, both)

    def __getitem__(self, index: Any) -> "BlockMask":
        """The part of some samples, heads and blocks of queries; it keeps its dimensions, and can be looked at only."""
        index = index if isinstance(index, tuple) else (index,)
        index = tuple(slice(i, i + 1 or None) if isinstance(i, int) else i for i in index)
        return self._with(
            lambda counts, indices: (None, None) if counts is None else (counts[index], indices[index]),
            _mask_of_a_part,
            self.seq_lengths,
        )

    def _adjust(self, new_q_len: int, new_kv_len: int) -> "BlockMask":
        """The upper left corner, for shorter sequences."""
        rows, columns = -(-new_q_len // self.BLOCK_SIZE[0]), -(-new_kv_len // self.BLOCK_SIZE[1])
        return self._with(
            lambda counts, indices: _cut(counts, indices, rows, columns), self.mask_mod, (new_q_len, new_kv_len)
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """(B, H, Q_LEN, KV_LEN)."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """How many places the mask has, those included that it leaves out."""
        return math.prod(self.shape)

    def sparsity(self) -> float:
        """How many per cent of the places lie in blocks that are left out."""
        computed = int(self.kv_num_blocks.sum())
        if self.full_kv_num_blocks is not None:
            computed += int(self.full_kv_num_blocks.sum())
        return 100 * (1 - computed * math.prod(self.BLOCK_SIZE) / self.numel())

    def to_dense(self) -> Any:
        """One for each block that is let through at least in part."""
        dense = _spread(self.kv_num_blocks, self.kv_indices)
        if self.full_kv_num_blocks is None or self.full_kv_indices is None:
            return dense
        return dense | _spread(self.full_kv_num_blocks, self.full_kv_indices)

    def to(self, device: Any) -> "BlockMask":
        """The same mask; there is one device."""
        tables = {name: getattr(self, name) for name in self.LISTS}
        moved: dict[str, Any] = {name: table if table is None else table.to(device) for name, table in tables.items()}
        return BlockMask(self.seq_lengths, BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=self.mask_mod, **moved)

    def to_string(self, grid_size: int | tuple[int, int] = (20, 20), limit: int = 4) -> str:
        """The blocks drawn: black for those let through, grey where some of several are."""
        dense = self.to_dense().float()
        rows, columns = dense.shape[-2:]
        most = (grid_size, grid_size) if isinstance(grid_size, int) else grid_size
        high, wide = (max(1, -(-size // at_most)) for size, at_most in zip((rows, columns), most, strict=True))
        drawn = []
        for number, place in enumerate(itertools.product(*[range(size) for size in dense.shape[:-2]])):
            if number == limit:
                drawn += ["...", "To print out more, set BlockMask.to_string(limit=N)"]
                drawn += ["You can also index (BlockMask[batch, head]) to choose a specific batch or head"]
                break
            picture = f"{place}\n"
            for row in range(0, rows, high):
                for column in range(0, columns, wide):
                    part = float(dense[place][row : row + high, column : column + wide].mean())
                    picture += 2 * ("█" if part == 1 else " " if part == 0 else "░")
                picture += "\n"
            drawn.append(picture)
        return "\n".join(drawn)

    def __str__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, \n{self.to_string().strip()}\n)"

    def __repr__(self) -> str:
        lists = [(name, getattr(self, name)) for name in self.LISTS]
        lines = [f"{name}={None if table is None else table.shape}" for name, table in lists]
        lines += [f"BLOCK_SIZE={self.BLOCK_SIZE}", f"shape={self.shape}", f"sparsity={self.sparsity():.2f}%"]
        lines.append(f"mask_mod={getattr(self.mask_mod, '__name__', self.mask_mod)}")
        return "BlockMask(\n    " + ",\n    ".join(lines) + "\n)"


def create_block_mask(
    mask_mod: Mod,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
    _compile: bool = False,
    separate_full_blocks: bool = True,
) -> BlockMask:
    """A mask for `flex_attention`, from the function that says where a query may look.

    >>> import pellucid as torch
    >>> print(create_block_mask(lambda b, h, q, k: q >= k, None, None, 6, 6, BLOCK_SIZE=2))
    BlockMask(shape=(1, 1, 6, 6), sparsity=33.33%,
    (0, 0)
    ██
    ████
    ██████
    )
    """
    if _wants_score(mask_mod):
        raise AssertionError(f"create-block_mask requires a mask_mod function! Got {mask_mod}")
    high, wide = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    mask = torch.nn.functional.pad(mask, (0, -KV_LEN % wide, 0, -Q_LEN % high))
    blocks = mask.unflatten(3, (-1, wide)).unflatten(2, (-1, high)).sum((3, 5))
    part, full, full_indices = blocks > 0, None, None
    if separate_full_blocks:
        full, full_indices = _listed(blocks == high * wide)
        part = part & (blocks < high * wide)
    return BlockMask.from_kv_blocks(*_listed(part), full, full_indices, (high, wide), mask_mod, (Q_LEN, KV_LEN))


# Attention ------------------------------------------------------------------------------------------------------------


def _check(query: Any, key: Any, value: Any, block_mask: BlockMask | None, enable_gqa: bool) -> None:
    """Refuse what does not fit together."""
    if query.size(-1) != key.size(-1):
        raise ValueError(
            "Expect query and key/value to have the same embedding dimension "
            f"but got E={query.size(-1)} and E={key.size(-1)}."
        )
    if not query.dim() == key.dim() == value.dim() == 4:
        raise NotImplementedError("NYI: query, key, and value must be 4D tensors")
    of_queries, of_keys = query.size(1), key.size(1)
    if not enable_gqa and of_queries != of_keys:
        raise ValueError(
            "Expect query and key/value to have the same number of heads "
            f"but got Hq={of_queries} and Hkv={of_keys}. Try setting enable_gqa=True for GQA."
        )
    if of_queries % of_keys:
        raise ValueError(
            "Expect number of query heads to be a multiple of kv heads for GQA "
            f"but got Hq={of_queries} and Hkv={of_keys}."
        )
    if block_mask is None:
        if query.size(0) != key.size(0):
            raise ValueError(
                "Expect query and key/value to have the same batch size, or non-none block_mask, "
                f"but got block_mask=None, Bq={query.size(0)}, and Bkv={key.size(0)}."
            )
        return
    if query.size(0) != key.size(0) and block_mask.shape[0] != query.size(0):
        raise ValueError(
            "Expect query and key/value to have the same batch size, or block_mask and query to have the same batch "
            f"size, but got Bq={query.size(0)}, Bkv={key.size(0)}, B_block_mask={block_mask.shape[0]}."
        )
    if block_mask.mask_mod is _mask_of_a_part:
        _mask_of_a_part(None, None, None, None)
    lengths = (query.size(-2), key.size(-2))
    if lengths != tuple(block_mask.seq_lengths):
        short = lengths[0] > block_mask.seq_lengths[0] or lengths[1] > block_mask.seq_lengths[1]
        raise ValueError(
            explain(
                f"block_mask was created for block_mask.shape={block_mask.shape} but got q_len={lengths[0]} and "
                f"kv_len={lengths[1]}",
                str(here()),
                f"the block mask was created for a {'smaller' if short else 'larger'} length than it is used for",
                "create_block_mask with these lengths" + ("" if short else ", or block_mask._adjust(q_len, kv_len)"),
            )
        )


def flex_attention(
    query: Any,
    key: Any,
    value: Any,
    score_mod: Mod | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """Attention; `score_mod(score, b, h, q, k)` changes each score, `block_mask` hides some of them.

    >>> import pellucid as torch
    >>> x = torch.arange(8.0).reshape(1, 1, 4, 2)
    >>> nearest = create_block_mask(lambda b, h, q, k: q == k, None, None, 4, 4)
    >>> bool((flex_attention(x, x, x, block_mask=nearest) == x).all())
    True
    """
    _check(query, key, value, block_mask, enable_gqa)
    if return_lse and return_aux is not None:
        raise ValueError("Cannot specify both return_lse and return_aux. Write return_aux=AuxRequest(lse=True).")
    groups = query.size(1) // key.size(1)
    key, value = (each.repeat_interleave(groups, 1).expand(query.size(0), -1, -1, -1) for each in (key, value))
    exact = torch.float64 if query.dtype == torch.float64 else torch.float32
    scores = query.to(exact) @ key.to(exact).transpose(-2, -1)
    scores = scores * (1 / math.sqrt(query.size(-1)) if scale is None else scale)
    if score_mod is not None:
        scores = _everywhere(score_mod, scores, shape=scores.shape).to(exact)
    if block_mask is not None:
        scores = scores.masked_fill(~_everywhere(block_mask.mask_mod, shape=scores.shape), -math.inf)
    hidden = (scores == -math.inf).all(-1, keepdim=True)
    weights = scores.masked_fill(hidden, 0.0).softmax(-1).masked_fill(hidden, 0.0)  # who sees nothing gets zeros
    result = weights.to(query.dtype) @ value.to(query.dtype)
    if return_aux is not None:
        return result, AuxOutput(
            scores.logsumexp(-1) if return_aux.lse else None, scores.amax(-1) if return_aux.max_scores else None
        )
    return (result, scores.logsumexp(-1)) if return_lse else result
