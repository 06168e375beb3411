"""Recurrent networks: layers and directions put together, for padded and for packed sequences; and single cells.

torch.lstm and its kin take all weights in one list; the modules of nn call `through_layers` themselves.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid import dtypes
from pellucid.core.kinds import Kind, plain
from pellucid.core.tensor import Tensor, bearing, wrap
from pellucid.ops.arguments import Shape, expect, name_of, refusal
from pellucid.ops.axes import transpose
from pellucid.ops.convert import as_type
from pellucid.ops.join import cat_row
from pellucid.ops.nn.dropout import dropout as drop
from pellucid.ops.nn.elman import composed_elman, elman_row
from pellucid.ops.nn.gru import composed_gru, gru_row
from pellucid.ops.nn.lstm import composed_lstm, lstm_row
from pellucid.ops.nn.recurrence import walk_of
from pellucid.ops.operation import COMPOSED, Draw, Sample, call, operation
from pellucid.ops.shape import reshape_row
from pellucid.ops.slicing import select_row


class Recurrence(NamedTuple):
    """A kind of recurrent layer: its row, its composed form, and the params both take after the walk.

    `nodes` are PyTorch's names for the last operation behind each state of a cell, and behind a layer's output.
    """

    row: Callable[..., Any]
    composed: Callable[..., Any]
    states: int
    nodes: tuple[tuple[str, ...], str]
    params: tuple[Any, ...] = ()


STACK = "StackBackward0"
LSTM = Recurrence(lstm_row, composed_lstm, 2, (("MulBackward0", "AddBackward0"), "MkldnnRnnLayerBackward0"))
GRU = Recurrence(gru_row, composed_gru, 1, (("AddBackward0",), STACK))
RNN_TANH = Recurrence(elman_row, composed_elman, 1, (("TanhBackward0",), STACK), (False,))
RNN_RELU = Recurrence(elman_row, composed_elman, 1, (("ReluBackward0",), STACK), (True,))
FULL = frozenset((np.dtype(np.float32), np.dtype(np.float64)))


def run_layer(kind: Recurrence, inputs: Sequence[Any], sizes: tuple[int, ...], reverse: bool = False) -> list[Any]:
    """One layer in one direction: all outputs, then the last states, (1, batch, size) each."""
    dtype = plain(inputs[0].array.dtype)
    if dtype not in FULL:
        return _in_float32(kind, inputs, sizes, reverse)
    unusual = not inputs[1].array.shape[-1] or any(isinstance(each.array, Kind) for each in inputs)
    form = kind.composed if unusual else kind.row
    return list(form(inputs, walk_of(sizes, reverse), *kind.params)[: 1 + kind.states])


def _in_float32(kind: Recurrence, inputs: Sequence[Any], sizes: tuple[int, ...], reverse: bool) -> list[Any]:
    """Half precision is computed in float32 from the first step to the last."""
    first = inputs[0]
    if first.array.dtype.kind in "biuc":
        what = f"\"addmm_impl_cpu_\" not implemented for '{name_of(first)}'"
        raise refusal(RuntimeError, what, f"the dtype is {first.dtype}", "convert it first, e.g. x.float()")
    wide = [as_type(each, dtypes.float32) for each in inputs]
    return [as_type(each, first.dtype) for each in run_layer(kind, wide, sizes, reverse)]


def zero_states(kind: Recurrence, batch: int, like: Any, weights: Sequence[Any]) -> tuple[Any, ...]:
    """The states that every layer begins with if none are given: as wide as its weights say."""
    rows, columns = weights[1].shape
    sizes = (columns, rows // 4)[: kind.states]
    return tuple(wrap(np.zeros((batch, size), plain(like.array.dtype))) for size in sizes)


def through_layers(
    kind: Recurrence, data: Any, sizes: tuple[int, ...], states: Sequence[Any] | None, weights: Sequence[Any],
    num_layers: int, dropout: float, train: bool, bidirectional: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """Run sequences, laid out as one matrix, through all layers: the last layer's outputs, then the last states."""
    directions = 2 if bidirectional else 1
    count = num_layers * directions
    each = len(weights) // count
    begin = zero_states(kind, sizes[0], data, weights) if states is None else ()
    ends: list[Any] = []
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            number = layer * directions + direction
            if states is not None:
                begin = tuple(select_row(state, (number,)) for state in states)
            own = weights[number * each : (number + 1) * each]
            output, *last = run_layer(kind, (data, *begin, *own), sizes, direction == 1)
            outputs.append(output)
            ends.append(last)
        data = cat_row(tuple(outputs), 1) if bidirectional else outputs[0]
        if dropout and train and layer < num_layers - 1:
            data = drop(data, dropout)
    last = ends[0] if count == 1 else [cat_row(found, 0) for found in zip(*ends)]
    return data, *(bearing(STACK, state) for state in last)


def padded(
    kind: Recurrence, input: Any, states: Sequence[Any] | None, weights: Sequence[Any], num_layers: int,
    dropout: float, train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """Sequences of one length, (time, batch, features) or with `batch_first` (batch, time, features)."""
    if batch_first:
        input = transpose(input, 0, 1)
    time, batch, features = input.shape
    expect(time > 0, "Expected sequence length to be larger than 0 in RNN")
    data = reshape_row(input, (time * batch, features))
    output, *last = through_layers(
        kind, data, (batch,) * time, states, weights, num_layers, dropout, train, bidirectional
    )  # fmt: skip
    name = "CatBackward0" if bidirectional else kind.nodes[1]
    output = bearing(name, reshape_row(output, (time, batch, output.shape[1])))
    return _alone(transpose(output, 0, 1) if batch_first else output), *last


def _alone(view: Any) -> Any:
    """A view as a tensor of its own: nobody else holds what it is a view of, and PyTorch returns no views here."""
    view.window = None
    return view


# --- torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu


def _run(kind: Recurrence, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Both forms of the arguments: (input, hx, params, ..., batch_first) and (data, batch_sizes, hx, params, ...)."""
    is_packed = isinstance(arguments[1], Tensor) and (kind.states == 2 or isinstance(arguments[2], Tensor))
    input, *sizes = arguments[: 2 if is_packed else 1]
    hx, weights, _, *options = arguments[len(sizes) + 1 :]
    states = tuple(hx) if kind.states == 2 else (hx,)
    if is_packed:
        return through_layers(kind, input, tuple(sizes[0].tolist()), states, tuple(weights), *options)
    return padded(kind, input, states, tuple(weights), *options)


def _weights(draw: Draw, inputs: int, hidden: int, gates: int, biases: bool, projection: int = 0) -> list[Any]:
    kept = projection or hidden
    shapes: list[tuple[int, ...]] = [(gates * hidden, inputs), (gates * hidden, kept)]
    shapes += [(gates * hidden,)] * 2 if biases else []
    shapes += [(projection, hidden)] if projection else []
    return [draw(*shape, low=-1.0, high=1.0) for shape in shapes]


def _samples(gates: int) -> Callable[[Draw], list[Sample]]:
    def state(draw: Draw, count: int, batch: int, hidden: int) -> Any:
        return [draw(count, batch, hidden), draw(count, batch, hidden)] if gates == 4 else draw(count, batch, hidden)

    def samples(draw: Draw) -> list[Sample]:
        one, two = _weights(draw, 2, 3, gates, True), _weights(draw, 3, 3, gates, True)
        both = [*_weights(draw, 2, 2, gates, False), *_weights(draw, 2, 2, gates, False)]
        rest = (1, 0.0, False, False)
        return [
            call(draw(3, 2, 2), state(draw, 1, 2, 3), one, True, *rest, False),
            call(draw(2, 3, 2), state(draw, 1, 2, 3), one, True, *rest, True),
            call(draw(2, 1, 2), state(draw, 2, 1, 3), [*one, *two], True, 2, 0.0, True, False, False),
            call(draw(2, 2, 2), state(draw, 2, 2, 2), both, False, 1, 0.0, False, True, False),
        ]  # fmt: skip

    return samples


@operation(samples=_samples(4), methods=(), unclaimed=COMPOSED)
def lstm(*args: Any) -> tuple[Any, ...]:
    """All layers of an LSTM: (output, h_n, c_n).

    Takes (input, (h_0, c_0), weights, has_biases, num_layers, dropout, train, bidirectional, batch_first), or for a
    packed sequence (data, batch_sizes, (h_0, c_0), weights, has_biases, num_layers, dropout, train, bidirectional).

    >>> import pellucid as torch
    >>> zero, w = torch.zeros(1, 2, 3), [torch.ones(12, 2), torch.ones(12, 3)]
    >>> output, h, c = torch.lstm(torch.ones(5, 2, 2), (zero, zero), w, False, 1, 0.0, False, False, False)
    >>> output.shape, h.shape
    (torch.Size([5, 2, 3]), torch.Size([1, 2, 3]))
    """
    return _run(LSTM, args)


@operation(samples=_samples(3), methods=(), unclaimed=COMPOSED)
def gru(*args: Any) -> tuple[Any, ...]:
    """All layers of a GRU: (output, h_n); takes what `lstm` takes, with one state.

    >>> import pellucid as torch
    >>> zero, w = torch.zeros(1, 2, 3), [torch.ones(9, 2), torch.ones(9, 3)]
    >>> torch.gru(torch.ones(5, 2, 2), zero, w, False, 1, 0.0, False, False, False)[0].shape
    torch.Size([5, 2, 3])
    """
    return _run(GRU, args)


@operation(samples=_samples(1), methods=(), unclaimed=COMPOSED)
def rnn_tanh(*args: Any) -> tuple[Any, ...]:
    """All layers of a simple recurrent network with tanh: (output, h_n); takes what `gru` takes.

    >>> import pellucid as torch
    >>> zero, w = torch.zeros(1, 2, 3), [torch.ones(3, 2), torch.ones(3, 3)]
    >>> torch.rnn_tanh(torch.ones(5, 2, 2), zero, w, False, 1, 0.0, False, False, False)[1].shape
    torch.Size([1, 2, 3])
    """
    return _run(RNN_TANH, args)


@operation(samples=_samples(1), methods=(), unclaimed=COMPOSED)
def rnn_relu(*args: Any) -> tuple[Any, ...]:
    """All layers of a simple recurrent network with relu: (output, h_n); takes what `gru` takes.

    >>> import pellucid as torch
    >>> zero, w = torch.zeros(1, 2, 3), [torch.ones(3, 2), torch.ones(3, 3)]
    >>> torch.rnn_relu(torch.ones(1, 2, 2), zero, w, False, 1, 0.0, False, False, False)[1][0, 0]
    tensor([2., 2., 2.])
    """
    return _run(RNN_RELU, args)


# --- single cells: a layer over one time step


def run_cell(kind: Recurrence, input: Any, states: Sequence[Any], weights: Sequence[Any]) -> tuple[Any, ...]:
    """The states after one step, from (batch, features) and states of (batch, hidden)."""
    given = tuple(weight for weight in weights if weight is not None)
    _check_cell(tuple(input.shape), [tuple(state.shape) for state in states], tuple(given[1].shape), given[0].shape[1])
    rows = given[0].shape[:1]
    if any(bias.shape != rows for bias in given[2:]):
        kind = kind._replace(row=kind.composed)  # a cell's biases may be of any shape that broadcasts
    _, *last = run_layer(kind, (input, *states, *given), (input.shape[0],))
    ends = (_alone(select_row(state, (0,))) for state in last)
    return tuple(bearing(name, state) for name, state in zip(kind.nodes[0], ends, strict=True))


def _check_cell(given: Shape, states: list[Shape], weight: Shape, features: int) -> None:
    """Refuse an input or a state that does not fit the weights."""
    expect(given[1] == features, f"input has inconsistent input_size: got {given[1]} expected {features}")
    for i, (*batch, hidden) in enumerate(states):
        found = (*batch, hidden)[0]
        expect([given[0]] == batch, f"Input batch size {given[0]} doesn't match hidden{i} batch size {found}")
        size = weight[1] if i == 0 else weight[0] // 4
        expect(hidden == size, f"hidden{i} has inconsistent hidden_size: got {hidden}, expected {size}")


def _cell_samples(gates: int) -> Callable[[Draw], list[Sample]]:
    def samples(draw: Draw) -> list[Sample]:
        def state(batch: int, hidden: int = 3) -> Any:
            return [draw(batch, hidden), draw(batch, hidden)] if gates == 4 else draw(batch, hidden)

        return [
            call(draw(2, 4), state(2), *_weights(draw, 4, 3, gates, True)),
            call(draw(1, 2), state(1), *_weights(draw, 2, 3, gates, False)),
            call(draw(3, 1), state(3), *_weights(draw, 1, 3, gates, True)),
            call(draw(2, 3), state(2), *_weights(draw, 3, 3, gates, True)),
            call(draw(3, 2), state(3, 2), *_weights(draw, 2, 2, gates, True)),
        ]

    return samples


@operation(samples=_cell_samples(4), methods=(), unclaimed=COMPOSED)
def lstm_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> tuple[Any, Any]:
    """One step of an LSTM: the next (h, c).

    >>> import pellucid as torch
    >>> state = (torch.zeros(2, 3), torch.zeros(2, 3))
    >>> torch.lstm_cell(torch.ones(2, 4), state, torch.ones(12, 4), torch.ones(12, 3))[0].shape
    torch.Size([2, 3])
    """
    return run_cell(LSTM, input, tuple(hx), (w_ih, w_hh, b_ih, b_hh))  # type: ignore[return-value]


@operation(samples=_cell_samples(3), methods=(), unclaimed=COMPOSED)
def gru_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    """One step of a GRU: the next h.

    >>> import pellucid as torch
    >>> torch.gru_cell(torch.ones(2, 4), torch.zeros(2, 3), torch.ones(9, 4), torch.ones(9, 3)).shape
    torch.Size([2, 3])
    """
    return run_cell(GRU, input, (hx,), (w_ih, w_hh, b_ih, b_hh))[0]


@operation(samples=_cell_samples(1), methods=(), unclaimed=COMPOSED)
def rnn_tanh_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    """One step of a simple recurrent network with tanh: the next h.

    >>> import pellucid as torch
    >>> torch.rnn_tanh_cell(torch.ones(2, 4), torch.zeros(2, 3), torch.ones(3, 4), torch.ones(3, 3)).shape
    torch.Size([2, 3])
    """
    return run_cell(RNN_TANH, input, (hx,), (w_ih, w_hh, b_ih, b_hh))[0]


@operation(samples=_cell_samples(1), methods=(), unclaimed=COMPOSED)
def rnn_relu_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    """One step of a simple recurrent network with relu: the next h.

    >>> import pellucid as torch
    >>> torch.rnn_relu_cell(torch.ones(1, 2), torch.zeros(1, 3), torch.ones(3, 2), torch.ones(3, 3))
    tensor([[2., 2., 2.]])
    """
    return run_cell(RNN_RELU, input, (hx,), (w_ih, w_hh, b_ih, b_hh))[0]
