"""Masks of attention that only look back, for keys and queries of different lengths.

>>> import pellucid as torch
>>> from pellucid.nn.attention.bias import causal_lower_right
>>> causal_lower_right(2, 3)
tensor([[ True,  True, False],
        [ True,  True,  True]])
"""

from enum import IntEnum
from typing import Any

import numpy as np

from pellucid.core.tensor import Tensor, wrap
from pellucid.interop.subclasses import NOT_ASKED, as_subclass

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(IntEnum):
    """The corner of the matrix of scores that the diagonal of a mask begins or ends in."""

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(Tensor):
    """A mask with True where a query may look; an ordinary tensor of truth values that remembers its kind."""

    __torch_function__ = NOT_ASKED

    def __new__(cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> Any:
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"variant must be a CausalVariant, got {type(variant).__name__}")
        diagonal = 0 if variant == CausalVariant.UPPER_LEFT else seq_len_kv - seq_len_q
        made: Any = as_subclass(wrap(np.tri(seq_len_q, seq_len_kv, diagonal, dtype=bool)), cls)
        made.variant, made.seq_len_q, made.seq_len_kv = variant, seq_len_q, seq_len_kv
        return made

    def __init__(self, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> None:
        """Everything is done by __new__."""

    def __repr__(self) -> str:
        return repr(self.as_subclass(Tensor))


def _sizes(size: Any) -> Any:
    if len(size) != 2:
        raise AssertionError(f"causal masks have two sizes, of queries and of keys, got {len(size)}")
    return size


def causal_upper_left(*size: int) -> CausalBias:
    """Query i looks at the keys 0 to i: `is_causal=True` for every pair of lengths.

    >>> causal_upper_left(2, 3)
    tensor([[ True, False, False],
            [ True,  True, False]])
    """
    return CausalBias(CausalVariant.UPPER_LEFT, *_sizes(size))  # type: ignore[no-any-return]


def causal_lower_right(*size: int) -> CausalBias:
    """The last query looks at all keys, as when the first keys come from a cache."""
    return CausalBias(CausalVariant.LOWER_RIGHT, *_sizes(size))  # type: ignore[no-any-return]
