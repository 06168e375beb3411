"""Recurrent layers: RNN, LSTM and GRU over whole sequences, and the cells that make one step of them."""

import math
import numbers
from typing import Any

from pellucid.core import modes
from pellucid.core.provenance import here, warn
from pellucid.errors import explain
from pellucid.nn import init
from pellucid.nn.modules.module import Module
from pellucid.nn.parameter import Parameter
from pellucid.nn.utils.rnn import PackedSequence
from pellucid.ops.create import empty, zeros
from pellucid.ops.nn import recurrent

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]

# How each kind computes, and how many gates its weights have side by side.
MODES = {
    "LSTM": (recurrent.LSTM, 4),
    "GRU": (recurrent.GRU, 3),
    "RNN_TANH": (recurrent.RNN_TANH, 1),
    "RNN_RELU": (recurrent.RNN_RELU, 1),
}


class RNNBase(Module):
    """What RNN, LSTM and GRU share: their weights, their checks, and the way through all layers.

    >>> import pellucid as torch
    >>> isinstance(torch.nn.LSTM(2, 3), torch.nn.RNNBase)
    True
    >>> [name for name, _ in torch.nn.RNNBase("GRU", input_size=2, hidden_size=3).named_parameters()]
    ['weight_ih_l0', 'weight_hh_l0', 'bias_ih_l0', 'bias_hh_l0']
    """

    def __init__(
        self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        _check_options(mode, input_size, hidden_size, num_layers, bias, batch_first, dropout, proj_size)
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._all_weights = []
        for layer in range(num_layers):
            for suffix in ("", "_reverse")[: 2 if bidirectional else 1]:
                shapes = self._shapes(layer)
                names = [f"{kind}_l{layer}{suffix}" for kind in shapes]
                for name, shape in zip(names, shapes.values(), strict=True):
                    setattr(self, name, Parameter(empty(shape, device=device, dtype=dtype)))
                self._all_weights.append(names)
        self._flat_weights_names = [name for names in self._all_weights for name in names]
        self.reset_parameters()

    def _shapes(self, layer: int) -> dict[str, tuple[int, ...]]:
        """The weights of a layer in one direction."""
        rows = MODES[self.mode][1] * self.hidden_size
        kept = self.proj_size or self.hidden_size
        columns = kept * (2 if self.bidirectional else 1) if layer else self.input_size
        shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, columns), "weight_hh": (rows, kept)}
        if self.bias:
            shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
        if self.proj_size:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        return shapes

    def reset_parameters(self) -> None:
        """Draw all weights evenly from ±1/√hidden_size."""
        bound = 1 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def flatten_parameters(self) -> None:
        """Nothing to do: this brings weights together on a GPU."""

    def __getstate__(self) -> dict[str, Any]:
        """With the list of weights that PyTorch looks for when it loads the module."""
        return {**super().__getstate__(), "_flat_weights": self._flat_weights}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({name: value for name, value in state.items() if name != "_flat_weights"})

    @property
    def _flat_weights(self) -> list[Any]:
        """All weights in the order of their names; one that a parametrization computes is computed now."""
        return [getattr(self, name) for name in self._flat_weights_names]

    @property
    def all_weights(self) -> list[list[Any]]:
        """The weights of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    # --- the way through

    def forward(self, input: Any, hx: Any = None) -> Any:
        """All outputs, and the states after the last step.

        The input is (time, batch, features), or (batch, time, features) with `batch_first`, or (time, features), or a
        PackedSequence; `hx` are the states before the first step, zeros unless given.
        """
        kind = MODES[self.mode][0]
        states = None if hx is None else (hx[0], hx[1]) if kind.states == 2 else (hx,)
        if isinstance(input, PackedSequence):
            output, last = self._over_packed(kind, input, states)
        else:
            output, last = self._over_padded(kind, input, states)
        return output, last if kind.states == 2 else last[0]

    def _over_padded(self, kind: Any, input: Any, states: Any) -> tuple[Any, tuple[Any, ...]]:
        rank = input.dim()
        if rank not in (2, 3):
            name = self._get_name()
            raise ValueError(f"{name}: Expected input to be 2D or 3D, got {rank}D instead")
        if states is not None:
            self._check_ranks(rank, states)
        along = 0 if self.batch_first else 1
        if rank == 2:
            input = input.unsqueeze(along)
            states = None if states is None else tuple(state.unsqueeze(1) for state in states)
        weights = self._flat_weights
        self._check_input(input, weights[0])
        self._check_states(states, input.shape[along])
        options = self.num_layers, self.dropout, self.training, self.bidirectional, self.batch_first
        output, *last = recurrent.padded(kind, input, states, weights, *options)
        if rank == 2:
            return output.squeeze(along), tuple(state.squeeze(1) for state in last)
        return output, tuple(last)

    def _over_packed(self, kind: Any, packed: PackedSequence, states: Any) -> tuple[Any, tuple[Any, ...]]:
        data, batch_sizes, order, back = packed
        sizes = tuple(batch_sizes.tolist())
        weights = self._flat_weights
        if data.dim() != 2:
            raise RuntimeError(f"input must have 2 dimensions, got {data.dim()}")
        self._check_input(data, weights[0])
        self._check_states(states, sizes[0])
        if states is not None:
            states = tuple(self.permute_hidden(state, order) for state in states)
        options = self.num_layers, self.dropout, self.training, self.bidirectional
        output, *last = recurrent.through_layers(kind, data, sizes, states, weights, *options)
        result = PackedSequence(output, batch_sizes, order, back)
        return result, tuple(self.permute_hidden(state, back) for state in last)

    def permute_hidden(self, hx: Any, permutation: Any) -> Any:
        """States in another order of the sequences."""
        return hx if permutation is None else hx.index_select(1, permutation)

    # --- checks that subclasses call

    def check_input(self, input: Any, batch_sizes: Any) -> None:
        """Refuse an input of another dtype, rank or width."""
        self._check_input(input, self._flat_weights[0])
        rank = 3 if batch_sizes is None else 2
        if input.dim() != rank:
            raise RuntimeError(explain(f"input must have {rank} dimensions, got {input.dim()}", str(here())))

    def get_expected_hidden_size(self, input: Any, batch_sizes: Any) -> tuple[int, int, int]:
        """The shape of h."""
        return self._state_sizes(self._batch(input, batch_sizes))[0]

    def _batch(self, input: Any, batch_sizes: Any) -> int:
        return int(input.shape[0 if self.batch_first else 1] if batch_sizes is None else batch_sizes[0])

    def check_hidden_size(
        self, hx: Any, expected_hidden_size: tuple[int, int, int], msg: str = "Expected hidden size {}, got {}"
    ) -> None:
        """Refuse a state of another shape."""
        if tuple(hx.shape) != expected_hidden_size:
            raise RuntimeError(explain(msg.format(expected_hidden_size, list(hx.shape)), str(here())))

    def check_forward_args(self, input: Any, hidden: Any, batch_sizes: Any) -> None:
        """Refuse an input or states that do not fit."""
        self.check_input(input, batch_sizes)
        states = hidden if isinstance(hidden, tuple) else (hidden,)
        self._check_states(states, self._batch(input, batch_sizes))

    # --- checks

    def _check_input(self, input: Any, weight: Any) -> None:
        if input.dtype != weight.dtype and modes.current().autocast is None:
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). "
                f"Convert input: input.to({weight.dtype}), or convert model: model.to({input.dtype})"
            )
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                explain(
                    f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.shape[-1]}",
                    str(here()),
                )
            )

    def _check_ranks(self, rank: int, states: tuple[Any, ...]) -> None:
        """States are batched when the input is."""
        ranks = [state.dim() for state in states]
        if any(found != rank for found in ranks):
            case = "unbatched 2-D" if rank == 2 else "batched 3-D"
            names = "hx and cx" if len(ranks) == 2 else "hx"
            got = f"({ranks[0]}-D, {ranks[1]}-D) tensors" if len(ranks) == 2 else f"{ranks[0]}-D tensor"
            raise RuntimeError(explain(f"For {case} input, {names} should also be {rank}-D but got {got}", str(here())))

    def _check_states(self, states: Any, batch: int) -> None:
        for i, (state, size) in enumerate(zip(states or (), self._state_sizes(batch), strict=False)):
            name = f"hidden[{i}]" if len(states) == 2 else "hidden"
            self.check_hidden_size(state, size, f"Expected {name} size {{}}, got {{}}")

    def _state_sizes(self, batch: int) -> tuple[tuple[int, int, int], ...]:
        """The shapes of h and of c."""
        layers = self.num_layers * (2 if self.bidirectional else 1)
        return (layers, batch, self.proj_size or self.hidden_size), (layers, batch, self.hidden_size)

    def extra_repr(self) -> str:
        """Its sizes, and the options that differ from the usual."""
        usual = {"proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0}
        shown = [f"{name}={value}" for name, default in (usual | {"bidirectional": False}).items()
                 if (value := getattr(self, name)) != default]  # fmt: skip
        return ", ".join([str(self.input_size), str(self.hidden_size), *shown])


def _check_options(
    mode: str, input_size: int, hidden_size: int, num_layers: int, bias: bool, batch_first: bool, dropout: float,
    proj_size: int,
) -> None:  # fmt: skip
    """Refuse what no recurrent layer can be made of."""
    if not isinstance(dropout, numbers.Number) or isinstance(dropout, bool) or not 0 <= dropout <= 1:
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
        )
    if dropout > 0 and num_layers == 1:
        warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers "
            f"greater than 1, but got dropout={dropout} and num_layers={num_layers}"
        )
    kinds = {"bias": (bias, bool), "batch_first": (batch_first, bool)}
    for name, (value, kind) in (kinds | {"input_size": (input_size, int), "hidden_size": (hidden_size, int)}).items():
        if not isinstance(value, kind):
            raise TypeError(f"{name} should be of type {kind.__name__}, got: {type(value).__name__}")
    for name, size in {"input_size": input_size, "hidden_size": hidden_size, "num_layers": num_layers}.items():
        if size <= 0:
            raise ValueError(f"{name} must be greater than zero")
    if proj_size < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if proj_size >= hidden_size:
        raise ValueError("proj_size has to be smaller than hidden_size")
    if mode not in MODES:
        raise ValueError(f"Unrecognized RNN mode: {mode}")


def _without_projection(kwargs: dict[str, Any]) -> None:
    if "proj_size" in kwargs:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")


class RNN(RNNBase):
    """Simple recurrent layers: h' = tanh(x W_ih + b_ih + h W_hh + b_hh), or relu by `nonlinearity`.

    >>> import pellucid as torch
    >>> output, h = torch.nn.RNN(3, 4)(torch.zeros(5, 2, 3))
    >>> output.shape, h.shape
    (torch.Size([5, 2, 4]), torch.Size([1, 2, 4]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _without_projection(kwargs)
        if len(args) > 3:
            *first, nonlinearity = args[:4]
            args = (*first, *args[4:])
        else:
            nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(f"RNN_{nonlinearity.upper()}", *args, **kwargs)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Long short-term memory: recurrent layers whose gates decide what to keep, to take in and to show.

    >>> import pellucid as torch
    >>> output, (h, c) = torch.nn.LSTM(3, 4, num_layers=2)(torch.zeros(5, 2, 3))
    >>> output.shape, h.shape, c.shape
    (torch.Size([5, 2, 4]), torch.Size([2, 2, 4]), torch.Size([2, 2, 4]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(self, input: Any, batch_sizes: Any) -> tuple[int, int, int]:
        """The shape of c."""
        return self._state_sizes(self._batch(input, batch_sizes))[1]


class GRU(RNNBase):
    """Gated recurrent units: recurrent layers with a reset gate and an update gate.

    >>> import pellucid as torch
    >>> torch.nn.GRU(3, 4, bidirectional=True)(torch.zeros(5, 2, 3))[0].shape
    torch.Size([5, 2, 8])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _without_projection(kwargs)
        super().__init__("GRU", *args, **kwargs)


# --- cells


class RNNCellBase(Module):
    """What the three cells share: their weights and their checks.

    >>> import pellucid as torch
    >>> isinstance(torch.nn.GRUCell(2, 3), torch.nn.RNNCellBase)
    True
    """

    kind: Any = None

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(empty((rows, input_size), device=device, dtype=dtype))
        self.weight_hh = Parameter(empty((rows, hidden_size), device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(empty(rows, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights evenly from ±1/√hidden_size."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _step(self, kind: Any, input: Any, states: tuple[Any, ...] | None) -> tuple[Any, ...]:
        """The next states, of a batch or of one example."""
        name = self._get_name()
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        for i, state in enumerate(states or ()):
            if state.dim() not in (1, 2):
                what = "hidden" if kind.states == 1 else f"hx[{i}]"
                raise ValueError(f"{name}: Expected {what} to be 1D or 2D, got {state.dim()}D instead")
        alone = input.dim() == 1
        if alone:
            input = input.unsqueeze(0)
        if states is None:
            states = (zeros(input.shape[0], self.hidden_size, dtype=input.dtype),) * kind.states
        elif alone:
            states = tuple(state.unsqueeze(0) if state.dim() == 1 else state for state in states)
        weights = self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
        result = recurrent.run_cell(kind, input, states, weights)
        return tuple(state.squeeze(0) for state in result) if alone else result

    def extra_repr(self) -> str:
        """Its sizes, and the options that differ from the usual."""
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        nonlinearity = getattr(self, "nonlinearity", "tanh")
        return text if nonlinearity == "tanh" else f"{text}, nonlinearity={nonlinearity}"


class RNNCell(RNNCellBase):
    """One step of a simple recurrent layer: h' = tanh(x W_ih + b_ih + h W_hh + b_hh), or relu.

    >>> import pellucid as torch
    >>> torch.nn.RNNCell(3, 4)(torch.zeros(2, 3)).shape
    torch.Size([2, 4])
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh", device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Any, hx: Any = None) -> Any:
        """The next h."""
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        kind = MODES[f"RNN_{self.nonlinearity.upper()}"][0]
        return self._step(kind, input, None if hx is None else (hx,))[0]


class LSTMCell(RNNCellBase):
    """One step of an LSTM.

    >>> import pellucid as torch
    >>> h, c = torch.nn.LSTMCell(3, 4)(torch.zeros(2, 3))
    >>> h.shape, c.shape
    (torch.Size([2, 4]), torch.Size([2, 4]))
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """The next h and c."""
        return self._step(recurrent.LSTM, input, None if hx is None else tuple(hx))  # type: ignore[return-value]


class GRUCell(RNNCellBase):
    """One step of a GRU.

    >>> import pellucid as torch
    >>> torch.nn.GRUCell(3, 4)(torch.zeros(2, 3)).shape
    torch.Size([2, 4])
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Any, hx: Any = None) -> Any:
        """The next h."""
        return self._step(recurrent.GRU, input, None if hx is None else (hx,))[0]
