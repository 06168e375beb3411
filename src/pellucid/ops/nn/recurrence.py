"""What recurrent layers share: the walk through time, sequences of several lengths, and derivatives of any order.

A layer sees its sequences as one matrix: the elements of all sequences at the first time step, then those at the
second, and so on. `Walk` says which rows belong to which step. Sequences of several lengths stand in the order of
their lengths, so the ones that are still running at a step are always the first ones.

Each kind of layer has two forms. Its row runs a whole sequence in NumPy, forward and backward, and keeps what
backward needs. The composed form is its definition, in operations of the table: it runs where tensors hold other
kinds of array (vmap, forward mode), and backward runs it again where the gradient itself is to be differentiated.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, chain
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from pellucid.core import modes
from pellucid.core.backward import gradients
from pellucid.core.provenance import here
from pellucid.core.tensor import Leaf, Tensor, wrap
from pellucid.core.views import current_node
from pellucid.ops.gemm import gemm
from pellucid.ops.join import cat_row
from pellucid.ops.matmul import mm_row, swap
from pellucid.ops.reduce import sum_row
from pellucid.ops.shape import reshape_row
from pellucid.ops.slicing import alias_row, slice_row

ONES = {np.dtype(kind): np.ones((), kind) for kind in (np.float32, np.float64)}


class Step(NamedTuple):
    """One time step: its rows, and the rows of the step that was worked on before it (none before the first)."""

    begin: int
    end: int
    before: int
    running: int  # how many sequences the step before had


@dataclass(frozen=True, slots=True, eq=False)
class Walk:
    """The way through time, forwards or backwards."""

    steps: tuple[Step, ...]  # in the order in which they are worked on
    batch: int  # how many sequences are running at every step; 0: not always as many
    reverse: bool
    ends: tuple[tuple[int, int], ...]  # the rows of the last state of every sequence
    origins: tuple[tuple[bool, int, int], ...]  # for all rows, where the state before stands: (in the start?, rows)


@lru_cache(maxsize=1024)
def walk_of(sizes: tuple[int, ...], reverse: bool) -> Walk:
    """The walk through time steps at which so many sequences are running.

    >>> walk_of((2, 1), False).steps
    (Step(begin=0, end=2, before=0, running=0), Step(begin=2, end=3, before=0, running=2))
    """
    begins = (0, *accumulate(sizes))
    times = range(len(sizes))
    steps = []
    before, running = 0, 0
    for time in times[::-1] if reverse else times:
        steps.append(Step(begins[time], begins[time + 1], before, running))
        before, running = begins[time], sizes[time]
    ends, done = [], 0
    for time in times[:1] if reverse else times[::-1]:
        if sizes[time] > done:
            ends.append((begins[time] + done, begins[time] + sizes[time]))
            done = sizes[time]
    same = sizes[0] if len(set(sizes)) == 1 else 0
    return Walk(tuple(steps), same, reverse, tuple(ends) or ((0, 0),), _origins(steps[::-1] if reverse else steps))


def _origins(steps: Sequence[Step]) -> tuple[tuple[bool, int, int], ...]:
    """Where the states before all steps stand, in the order of the rows; neighbours are joined."""
    pieces: list[tuple[bool, int, int]] = []
    for begin, end, before, running in steps:
        kept = min(running, end - begin)
        for piece in ((False, before, before + kept), (True, kept, end - begin)):
            if pieces and (pieces[-1][0], pieces[-1][2]) == piece[:2]:
                pieces[-1] = (piece[0], pieces[-1][1], piece[2])
            elif piece[1] < piece[2]:
                pieces.append(piece)
    return tuple(pieces)


# --- states, in kernels


def cut(array: ndarray, walk: Walk) -> Any:
    """The rows of every step in the order of the walk, to iterate over; of blocks (count, rows, size) those of each.

    Where all steps are alike this is one view: going through it takes half the time of as many slices.
    """
    if walk.batch:
        parts = array.reshape((*array.shape[:-2], len(walk.steps), walk.batch, array.shape[-1]))
        if array.ndim == 3:
            parts = parts.swapaxes(0, 1)
        return parts[::-1] if walk.reverse else parts
    return [array[..., begin:end, :] for begin, end, _, _ in walk.steps]


def befores(start: ndarray, run: ndarray, walk: Walk) -> Iterator[ndarray]:
    """The states that each step begins with, to be asked for when the step before is done.

    Sequences that were not running yet begin with their start.
    """
    if walk.batch:
        return chain((start,), cut(run, walk))
    return (_state_before(start, run, step) for step in walk.steps)


def _state_before(start: ndarray, run: ndarray, step: Step) -> ndarray:
    begin, end, before, running = step
    size = end - begin
    if size <= running:
        return run[before : before + size]
    return np.concatenate((run[before : before + running], start[running:size]))


def states_before(start: ndarray, run: ndarray, walk: Walk) -> ndarray:
    """The states that all steps begin with, row by row as the layer's input."""
    return np.concatenate([(start if first else run)[begin:end] for first, begin, end in walk.origins] or [run[:0]])


def times_states_before(out: ndarray, start: ndarray, run: ndarray, walk: Walk) -> None:
    """Multiply by the states that all steps begin with, in place, without putting them together first."""
    row = 0
    for first, begin, end in walk.origins:
        rows = out[row : row + end - begin]
        np.multiply(rows, (start if first else run)[begin:end], rows)
        row += end - begin


def last_states(run: ndarray, walk: Walk) -> ndarray:
    """The state that each sequence ends with, of shape (1, sequences, size): of one layer in one direction."""
    return np.concatenate([run[begin:end] for begin, end in walk.ends])[None]


def by_gate(weight: ndarray, size: int) -> ndarray:
    """The rows of a weight (or a bias) in another order: the sigmoids' first, with the other sign, then the tanh's.

    A sigmoid is 1 / (1 + exp(-a)): the minus costs least here. An LSTM's gates come as i, f, g, o and a GRU's as
    r, z, n, so the tanh's is the third of either.
    """
    given = weight.reshape(-1, size, *weight.shape[1:])
    found = np.empty_like(given)
    np.negative(given[:2], found[:2])
    if len(given) == 4:
        np.negative(given[3], found[2])
    found[-1] = given[2]
    return found.reshape(weight.shape)


def projected(x: ndarray, weight: ndarray, bias: ndarray | None, size: int) -> ndarray:
    """`x @ weight.T + bias` for all steps at once, the gates in the order of `by_gate`."""
    return gemm(x, by_gate(weight, size).T, None if bias is None else by_gate(bias, size))


def in_blocks(rows: ndarray, size: int) -> ndarray:
    """Gates that stand side by side in rows as blocks (gates, rows, size) of the same memory.

    Activations write what they make of them to blocks of their own: contiguous arrays are worked on faster.
    """
    return rows.reshape(len(rows), rows.shape[1] // size, size).transpose(1, 0, 2)


def sigmoid_of_negated(a: ndarray, out: ndarray, one: ndarray) -> None:
    """1 / (1 + exp(a)): the sigmoid of -a."""
    np.exp(a, out)
    np.add(out, one, out)
    np.true_divide(one, out, out)  # 1.7 times as fast as np.reciprocal


# --- backward


def all_plain(arrays: Sequence[Any]) -> bool:
    """Whether all are ndarrays, as at first order."""
    return all(array is None or isinstance(array, ndarray) for array in arrays)


def zeros_for(g: Any, like: Any) -> Any:
    """A gradient, or zeros where none arrived."""
    return np.zeros(like.shape, like.dtype) if g is None else g


def weight_gradients(
    of_input: Any, of_state: Any, x: Any, h: Any, weights: Sequence[Any], needs: Sequence[bool]
) -> list[Any]:
    """The gradients of weight_ih, weight_hh and the biases, from those of the gates' input and recurrent parts."""
    found: list[Any] = [mm_row(swap(of_input), x) if needs[0] else None]
    found.append(mm_row(swap(of_state), h) if needs[1] else None)
    if len(weights) > 3:
        first = sum_row(of_input, (0,), False) if needs[2] or needs[3] else None
        found += [first, first if of_state is of_input or first is None else sum_row(of_state, (0,), False)]
    return found


def recomputed(composed: Callable[..., Any], g: Sequence[Any], inputs: Sequence[Any], *params: Any) -> list[Any]:
    """The gradients of the inputs by way of the composed form, which is run again.

    The inputs enter by a step of their own, so that a gradient stops there even if one was computed from another.
    """
    recorded = not all(value is None or not isinstance(value, Tensor) for value in (*g, *inputs))
    with modes.recording(True):
        entered = [_entered(value) for value in inputs]
        outputs = composed(entered, *params)
        pairs = [(y, seed) for y, seed in zip(outputs, g, strict=False) if seed is not None]
        seeds = [seed if isinstance(seed, Tensor) else wrap(seed) for _, seed in pairs]
        found = gradients([y for y, _ in pairs], seeds, entered, recorded, recorded)
    return [each if recorded or each is None else each.array for each in found]


def _entered(value: Any) -> Tensor:
    if isinstance(value, Tensor) and current_node(value) is not None:
        return alias_row(value, ())  # type: ignore[no-any-return]
    tensor = wrap(value.array if isinstance(value, Tensor) else value)
    tensor.node = Leaf(tensor, here())
    return tensor


# --- the composed form


def composed_steps(step: Callable[..., Any], gates: Any, states: Sequence[Any], walk: Walk) -> tuple[Any, ...]:
    """Run a cell along the walk: all outputs (the first state of every step), then the last states as `last_states`.

    `step(gates, *states)` returns the new states of the sequences that are running.
    """
    outputs: list[Any] = []
    for begin, end, _, _ in walk.steps:
        size = end - begin
        whole = size == states[0].shape[0]
        running = states if whole else [slice_row(state, (slice(0, size),)) for state in states]
        new = step(slice_row(gates, (slice(begin, end),)), *running)
        outputs.append(new[0])
        ended = [slice_row(state, (slice(size, None),)) for state in states]
        states = new if whole else [cat_row(pair, 0) for pair in zip(new, ended, strict=True)]
    in_time = outputs[::-1] if walk.reverse else outputs
    joined = in_time[0] if len(in_time) == 1 else cat_row(tuple(in_time), 0)
    return joined, *(reshape_row(state, (1, *state.shape)) for state in states)
