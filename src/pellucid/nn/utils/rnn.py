"""Sequences of several lengths: padded into one tensor, or packed without padding, and back.

A packed sequence holds the first elements of all sequences, then their second elements, and so on, the longest
sequence first; `batch_sizes` says how many sequences are still running at each step.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

import pellucid as torch
from pellucid.core.provenance import here
from pellucid.core.tensor import Tensor
from pellucid.errors import explain

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence",
    "pad_sequence", "unpack_sequence", "unpad_sequence",
]  # fmt: skip


class _Packed(NamedTuple):
    data: Any
    batch_sizes: Any
    sorted_indices: Any
    unsorted_indices: Any


class PackedSequence(_Packed):
    """Sequences of several lengths without padding: what recurrent layers take and give back.

    >>> import pellucid as torch
    >>> packed = torch.nn.utils.rnn.pack_sequence([torch.tensor([1, 2, 3]), torch.tensor([4])])
    >>> packed.data, packed.batch_sizes
    (tensor([1, 4, 2, 3]), tensor([2, 1, 1]))
    """

    __slots__ = ()

    def __new__(
        cls, data: Any, batch_sizes: Any = None, sorted_indices: Any = None, unsorted_indices: Any = None
    ) -> "PackedSequence":
        if batch_sizes is None:
            if not (isinstance(data, (list, tuple)) and len(data) == 2):
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> "PackedSequence":
        """The same with `data.to(...)`; the packed sequence itself if nothing changes."""
        data = self.data.to(*args, **kwargs)
        return self if data is self.data else self._replace(data=data)

    def cpu(self, *args: Any, **kwargs: Any) -> "PackedSequence":
        """Itself: everything is on the CPU already."""
        return self

    def cuda(self, *args: Any, **kwargs: Any) -> "PackedSequence":
        """Refused: there is no GPU here."""
        return self._replace(data=self.data.cuda(*args, **kwargs))

    def pin_memory(self) -> "PackedSequence":
        """Itself: there is no other memory to copy to."""
        return self

    def double(self) -> "PackedSequence":
        """The data in float64."""
        return self.to(torch.float64)

    def float(self) -> "PackedSequence":
        """The data in float32."""
        return self.to(torch.float32)

    def half(self) -> "PackedSequence":
        """The data in float16."""
        return self.to(torch.float16)

    def long(self) -> "PackedSequence":
        """The data in int64."""
        return self.to(torch.int64)

    def int(self) -> "PackedSequence":
        """The data in int32."""
        return self.to(torch.int32)

    def short(self) -> "PackedSequence":
        """The data in int16."""
        return self.to(torch.int16)

    def char(self) -> "PackedSequence":
        """The data in int8."""
        return self.to(torch.int8)

    def byte(self) -> "PackedSequence":
        """The data in uint8."""
        return self.to(torch.uint8)

    @property
    def is_cuda(self) -> bool:
        """Never."""
        return False

    def is_pinned(self) -> bool:
        """Never: there is no GPU to copy to."""
        return False


def invert_permutation(permutation: Any) -> Any:
    """The permutation that undoes another.

    >>> import pellucid as torch
    >>> invert_permutation(torch.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    if permutation is None:
        return None
    places = torch.arange(permutation.numel())
    return torch.empty_like(permutation).scatter_(0, permutation, places)


# --- packing


def _batch_sizes(lengths: np.ndarray) -> np.ndarray:
    """How many sequences are running at each step."""
    return np.count_nonzero(lengths[None, :] > np.arange(lengths.max(initial=0))[:, None], axis=1)


def _rows(lengths: np.ndarray, time: int = 1, batch: int = 1) -> np.ndarray:
    """The place of every element of a packed sequence: `time` steps from one time to the next, `batch` to the next one.

    With (batch size, 1) the place in a tensor of time and batch, with (1, length) in one of batch and time.
    """
    steps, sequences = np.nonzero(lengths[None, :] > np.arange(lengths.max(initial=0))[:, None])
    return steps * time + sequences * batch


def pack_padded_sequence(
    input: Any, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack a padded tensor of (time, batch, ...); `enforce_sorted=False` takes the sequences in any order.

    >>> import pellucid as torch
    >>> padded = torch.tensor([[1, 4], [2, 0], [3, 0]])
    >>> pack_padded_sequence(padded, [3, 1]).data
    tensor([1, 4, 2, 3])
    """
    sizes = np.asarray(lengths.tolist() if isinstance(lengths, Tensor) else lengths).astype(np.int64)
    order = None
    if not enforce_sorted:
        order = torch.tensor(np.argsort(-sizes, kind="stable"))
        sizes = -np.sort(-sizes)
        input = input.index_select(0 if batch_first else 1, order)
    if batch_first:
        input = input.transpose(0, 1)
    _check_lengths(sizes, tuple(input.shape))
    flat = input.reshape(input.shape[0] * input.shape[1], *input.shape[2:])
    data = flat.index_select(0, torch.tensor(_rows(sizes, input.shape[1])))
    return PackedSequence(data, torch.tensor(_batch_sizes(sizes)), order)


def _check_lengths(lengths: np.ndarray, shape: tuple[int, ...]) -> None:
    """Refuse lengths that do not fit a tensor of (time, batch, ...)."""
    if len(shape) < 2:
        raise IndexError("Dimension out of range (expected to be in range of [-1, 0], but got 1)")
    problem, way_out = "", None
    if 0 in shape[:2]:
        problem = f"Cannot pack empty tensors: the input has {shape[0]} time steps and {shape[1]} sequences"
    elif len(lengths) != shape[1]:
        problem = f"Expected `len(lengths)` to be equal to batch_size, but got {len(lengths)} (batch_size={shape[1]})"
    elif np.any(lengths[1:] > lengths[:-1]):
        problem = "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True"
        way_out = "pass enforce_sorted=False"
    elif np.any(lengths <= 0):
        problem = "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
    elif np.any(lengths > shape[0]):
        problem = f"a sequence of length {lengths.max()} does not fit a tensor of {shape[0]} time steps"
        way_out = "pass batch_first=True if the batch is the first dimension"
    if problem:
        raise RuntimeError(explain(problem, str(here()), try_=way_out))


def pack_sequence(sequences: Sequence[Any], enforce_sorted: bool = True) -> PackedSequence:
    """Pack a list of tensors, each with time as its first dimension.

    >>> import pellucid as torch
    >>> pack_sequence([torch.tensor([1, 2]), torch.tensor([3])]).batch_sizes
    tensor([2, 1])
    """
    lengths = [sequence.shape[0] for sequence in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


# --- padding


def _spread(data: Any, places: np.ndarray, sizes: tuple[int, int], padding_value: float) -> Any:
    """The rows of data at these places of a tensor that is filled with the padding value elsewhere."""
    shape = tuple(data.shape[1:])
    out = torch.full((sizes[0] * sizes[1], *shape), padding_value, dtype=data.dtype)
    return out.index_copy(0, torch.tensor(places), data).reshape(*sizes, *shape)


def pad_packed_sequence(
    sequence: Any, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Any, Any]:
    """Unpack into a padded tensor of (time, batch, ...), with the lengths of the sequences.

    >>> import pellucid as torch
    >>> pad_packed_sequence(pack_sequence([torch.tensor([1, 2, 3]), torch.tensor([4])]))
    (tensor([[1, 4],
            [2, 0],
            [3, 0]]), tensor([3, 1]))
    """
    batch_sizes = np.asarray(sequence.batch_sizes.tolist(), np.int64)
    steps = len(batch_sizes)
    if not steps:
        raise RuntimeError(explain("batch_sizes can not be empty: there is nothing to unpack", str(here())))
    if total_length is not None and total_length < steps:
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in input, but got "
            f"total_length={total_length} and max sequence length being {steps}"
        )
    lengths = _batch_sizes(batch_sizes)
    size = len(lengths)
    padded = _spread(sequence.data, _rows(lengths, size), (total_length or steps, size), padding_value)
    found: Any = torch.tensor(lengths)
    if batch_first:
        padded = padded.transpose(0, 1)
    if sequence.unsorted_indices is None:
        return padded, found
    order = sequence.unsorted_indices
    return padded.index_select(0 if batch_first else 1, order), found[order]


def pad_sequence(
    sequences: Any, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Any:
    """Stack tensors of several lengths into one of (time, batch, ...), filled up with the padding value.

    >>> import pellucid as torch
    >>> pad_sequence([torch.tensor([1, 2, 3]), torch.tensor([4])], batch_first=True)
    tensor([[1, 2, 3],
            [4, 0, 0]])
    """
    if not isinstance(sequences, (Tensor, Iterable)):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    sequences = tuple(sequences)
    if not sequences:
        raise RuntimeError("received an empty list of sequences")
    first = sequences[0]
    rows = [each.to(first.dtype).expand(each.shape[0], *first.shape[1:]) for each in sequences]
    lengths = [each.shape[0] for each in rows]
    longest = max(lengths)
    starts = [number * longest + (longest - n if padding_side == "left" else 0) for number, n in enumerate(lengths)]
    places = np.concatenate([np.arange(start, start + n) for start, n in zip(starts, lengths)])
    padded = _spread(torch.cat(rows), places, (len(rows), longest), padding_value)
    return padded if batch_first else padded.transpose(0, 1).contiguous()


def unpad_sequence(padded_sequences: Any, lengths: Any, batch_first: bool = False) -> list[Any]:
    """The sequences of a padded tensor, each in its own length.

    >>> import pellucid as torch
    >>> unpad_sequence(torch.tensor([[1, 4], [2, 0]]), torch.tensor([2, 1]))
    [tensor([1, 2]), tensor([4])]
    """
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    rows = zip(padded_sequences, lengths.tolist())
    return [row[:length].clone(memory_format=torch.contiguous_format) for row, length in rows]


def unpack_sequence(packed_sequences: PackedSequence) -> list[Any]:
    """The sequences of a packed sequence, in the order in which they were packed.

    >>> import pellucid as torch
    >>> unpack_sequence(pack_sequence([torch.tensor([1, 2]), torch.tensor([4])]))
    [tensor([1, 2]), tensor([4])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
