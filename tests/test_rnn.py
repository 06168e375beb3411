"""Recurrent layers, their cells and packed sequences against PyTorch's: bits, texts, outputs, gradients, errors.

A case is a constructor call and what to run it on. Both libraries get the same seed, so that initial values and what
dropout draws must be equal bit for bit.
"""

import copy
import pickle
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import pellucid

FUNC = pellucid.func
CLOSE = {"float64": {"rtol": 1e-11, "atol": 1e-12}, "float32": {"rtol": 2e-4, "atol": 2e-5}}


@dataclass
class Case:
    """A constructor call, the shape of the input, and how to run."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    shape: tuple[int, ...] = (4, 3, 5)
    lengths: tuple[int, ...] = ()  # packed, if there are some
    states: bool = False
    train: bool = False

    def __str__(self) -> str:
        words = [*map(str, self.args), *(f"{key}={value}" for key, value in self.kwargs.items())]
        how = [str(self.shape), *(word for word, on in {"packed": self.lengths, "states": self.states}.items() if on)]
        return f"{self.name}({','.join(words)}) {' '.join(how)}"


CASES = [
    case
    for name in ("LSTM", "GRU", "RNN")
    for case in (
        Case(name, (5, 4)),
        Case(name, (5, 4), states=True),
        Case(name, (5, 4), {"bias": False}, shape=(1, 3, 5)),
        Case(name, (5, 4), {"num_layers": 2, "batch_first": True}, shape=(3, 4, 5), states=True),
        Case(name, (5, 4), {"bidirectional": True}, states=True),
        Case(name, (5, 4), {"num_layers": 3, "dropout": 0.5, "bidirectional": True}, train=True),
        Case(name, (5, 4), shape=(4, 5)),
        Case(name, (5, 4), {"batch_first": True, "bidirectional": True}, shape=(4, 5), states=True),
        Case(name, (5, 4), shape=(2, 0, 5)),
        Case(name, (5, 4), {"num_layers": 2}, lengths=(4, 2, 1), states=True),
        Case(name, (5, 4), {"bidirectional": True}, lengths=(2, 4, 3), states=True),
        Case(name, (5, 4), {"num_layers": 2, "dropout": 0.3}, lengths=(1, 4, 4), train=True),
    )
]
CASES += [
    Case("LSTM", (5, 4), {"proj_size": 3}, states=True),
    Case("LSTM", (5, 4), {"proj_size": 2, "num_layers": 2, "bidirectional": True, "bias": False}, states=True),
    Case("LSTM", (5, 4), {"proj_size": 2, "bidirectional": True}, lengths=(3, 4, 1), states=True),
    Case("RNN", (5, 4), {"nonlinearity": "relu"}, states=True),
    Case("RNN", (5, 4, 2, "relu", False), lengths=(4, 2, 1)),
]
CELLS = [
    Case(name, (5, 4), kwargs, shape=shape, states=states)
    for name in ("LSTMCell", "GRUCell", "RNNCell")
    for kwargs, shape, states in (({}, (3, 5), True), ({"bias": False}, (3, 5), False), ({}, (5,), True))
] + [Case("RNNCell", (5, 4), {"nonlinearity": "relu"}, shape=(3, 5), states=True)]


def made(lib: Any, case: Case) -> Any:
    lib.manual_seed(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(lib.nn, case.name)(*case.args, **case.kwargs).train(case.train)


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).uniform(-1.5, 1.5, shape)


def states_of(lib: Any, case: Case, dtype: Any) -> Any:
    """Initial states for a case; the LSTM's second one may be wider."""
    wide = 4
    if case.name.endswith("Cell"):
        sizes = [(*case.shape[:-1], wide)] * 2
    else:
        count = case.kwargs.get("num_layers", 1) * (2 if case.kwargs.get("bidirectional") else 1)
        batch = () if len(case.shape) == 2 else (case.shape[0 if case.kwargs.get("batch_first") else 1],)
        sizes = [(count, *batch, case.kwargs.get("proj_size", wide)), (count, *batch, wide)]
    made = [lib.tensor(numbers(*size) + i, dtype=dtype, requires_grad=True) for i, size in enumerate(sizes)]
    return tuple(made) if case.name.startswith("LSTM") else made[0]


def leaves(tree: Any) -> list[Any]:
    return [leaf for part in tree for leaf in leaves(part)] if isinstance(tree, (list, tuple)) else [tree]


def run(lib: Any, case: Case, dtype: str) -> tuple[list[Any], list[Any], Any]:
    """Outputs (tensors), then what they depend on, and the module."""
    kind = getattr(lib, dtype)
    module = made(lib, case).to(kind)
    x = lib.tensor(numbers(*case.shape), dtype=kind, requires_grad=True)
    states = states_of(lib, case, kind) if case.states else None
    given: Any = x
    if case.lengths:
        given = lib.nn.utils.rnn.pack_padded_sequence(x, list(case.lengths), enforce_sorted=False)
    lib.manual_seed(5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch has no fast kernel for projections, and says so
        out = module(given) if states is None else module(given, states)
    outputs = [leaf for leaf in leaves(out) if hasattr(leaf, "detach") and leaf.is_floating_point()]
    return outputs, [x, *(leaves(states) if case.states else []), *module.parameters()], module


def weighted(outputs: list[Any], lib: Any) -> Any:
    """A number that depends on every output in its own way."""
    parts = [(y * lib.tensor(numbers(*y.shape), dtype=y.dtype)).sum() for y in outputs]
    return sum(parts[1:], parts[0])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("case", CASES + CELLS, ids=str)
def test_outputs_and_gradients(torch, case, dtype):
    found = []
    for lib in (pellucid, torch):
        outputs, inputs, _ = run(lib, case, dtype)
        grads = lib.autograd.grad(weighted(outputs, lib), inputs, allow_unused=True)
        found.append([[y.detach().numpy() for y in outputs], [None if g is None else g.numpy() for g in grads]])
    for mine, its in zip(found[0][0], found[1][0], strict=True):
        np.testing.assert_allclose(mine, its, **CLOSE[dtype])
    for mine, its in zip(found[0][1], found[1][1], strict=True):
        zero = np.zeros(()) if its is None else its
        np.testing.assert_allclose(
            zero if mine is None else mine, np.broadcast_to(zero, np.shape(zero)), **CLOSE[dtype]
        )


@pytest.mark.parametrize("case", CASES + CELLS, ids=str)
def test_text_and_initial_bits(torch, case):
    ours, its = made(pellucid, case), made(torch, case)
    assert repr(ours) == repr(its)
    mine, theirs = ours.state_dict(), its.state_dict()
    assert list(mine) == list(theirs)
    for name in theirs:
        assert mine[name].numpy().tobytes() == theirs[name].numpy().tobytes(), name
    if not case.name.endswith("Cell"):
        assert ours._all_weights == its._all_weights
        assert [[tuple(w.shape) for w in row] for row in ours.all_weights] == [
            [tuple(w.shape) for w in row] for row in its.all_weights
        ]


# --- beyond the first derivative

SMALL = [
    Case("LSTM", (2, 3), {"num_layers": 2}, shape=(3, 2, 2), states=False),
    Case("LSTM", (2, 3), {"proj_size": 2, "bidirectional": True}, shape=(3, 2, 2), lengths=(2, 3)),
    Case("GRU", (2, 3), {"bidirectional": True}, shape=(3, 2, 2)),
    Case("GRU", (2, 3), {"bias": False}, shape=(3, 2, 2), lengths=(1, 3)),
    Case("RNN", (2, 3), {"num_layers": 2}, shape=(3, 2, 2), lengths=(3, 2)),
    Case("LSTMCell", (2, 3), shape=(2, 2)),
]


@pytest.mark.parametrize("case", SMALL, ids=str)
def test_second_order(torch, case):
    found = []
    for lib in (pellucid, torch):
        outputs, inputs, _ = run(lib, case, "float64")
        first = lib.autograd.grad(weighted(outputs, lib), inputs, create_graph=True)
        second = lib.autograd.grad(weighted(list(first), lib), inputs)
        found.append([g.detach().numpy() for g in (*first, *second)])
    for mine, its in zip(*found, strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-9, atol=1e-11)


def total_of(module: Any, case: Case, lib: Any = pellucid) -> Any:
    """A function of the module's tensors and the input."""

    def function(tensors: dict[str, Any], x: Any) -> Any:
        given = x
        if case.lengths:
            given = lib.nn.utils.rnn.pack_padded_sequence(x, list(case.lengths), enforce_sorted=False)
        out = lib.func.functional_call(module, tensors, (given,))
        return sum(leaf.sin().sum() for leaf in leaves(out) if hasattr(leaf, "sin") and leaf.is_floating_point())

    return function


@pytest.mark.parametrize("case", SMALL, ids=str)
def test_forward_mode_is_the_adjoint(case):
    module = made(pellucid, case).double()
    tensors = {name: tensor.detach() for name, tensor in module.named_parameters()}
    x = pellucid.tensor(numbers(*case.shape))
    function = total_of(module, case)
    moves = {name: pellucid.tensor(numbers(*tensor.shape)) for name, tensor in tensors.items()}
    along = pellucid.tensor(numbers(*case.shape)) + 1
    _, slope = FUNC.jvp(function, (tensors, x), (moves, along))
    grads, of_x = FUNC.grad(function, (0, 1))(tensors, x)
    expected = sum((grads[name] * moves[name]).sum() for name in tensors) + (of_x * along).sum()
    assert slope.item() == pytest.approx(expected.item(), rel=1e-11)


@pytest.mark.parametrize("case", SMALL, ids=str)
def test_an_ensemble_under_vmap_is_a_loop(case):
    modules = [made(pellucid, case).double() for _ in range(3)]
    for i, module in enumerate(modules):
        for parameter in module.parameters():
            parameter.data *= 1 + i
    stacked, _ = FUNC.stack_module_state(modules)
    x = pellucid.tensor(numbers(*case.shape))
    function = total_of(modules[0], case)
    values = FUNC.vmap(FUNC.grad(function), in_dims=(0, None))(stacked, x)
    for i, module in enumerate(modules):
        alone = FUNC.grad(function)({name: p.detach() for name, p in module.named_parameters()}, x)
        for name, expected in alone.items():
            np.testing.assert_allclose(values[name][i].detach().numpy(), expected.numpy(), rtol=1e-11, atol=1e-13)


def test_a_jacobian_by_reverse_mode_takes_batched_gradients():
    case = SMALL[0]
    module = made(pellucid, case).double()
    x = pellucid.tensor(numbers(*case.shape))
    mine = FUNC.jacrev(lambda x: module(x)[0])(x)
    its = FUNC.jacfwd(lambda x: module(x)[0])(x)
    np.testing.assert_allclose(mine.detach().numpy(), its.detach().numpy(), rtol=1e-10, atol=1e-12)


# --- numbers that need no PyTorch


def test_golden_numbers():
    pellucid.manual_seed(0)
    for name, expected in {"LSTM": -1.361166, "GRU": 0.851779, "RNN": -7.192627}.items():
        module = getattr(pellucid.nn, name)(2, 3)
        y = module(pellucid.arange(8.0).reshape(4, 1, 2) / 4)[0]
        assert y.sum().item() == pytest.approx(expected, abs=1e-4), name


def test_a_packed_batch_is_its_sequences_one_by_one():
    pellucid.manual_seed(1)
    module = pellucid.nn.LSTM(3, 4, num_layers=2, bidirectional=True)
    sequences = [pellucid.randn(n, 3) for n in (2, 5, 1, 5)]
    packed = pellucid.nn.utils.rnn.pack_sequence(sequences, enforce_sorted=False)
    output, (h, c) = module(packed)
    for i, (sequence, mine) in enumerate(zip(sequences, pellucid.nn.utils.rnn.unpack_sequence(output), strict=True)):
        alone, (h_alone, c_alone) = module(sequence)
        for a, b in ((mine, alone), (h[:, i], h_alone), (c[:, i], c_alone)):
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_copies_and_frozen_weights():
    module = pellucid.nn.LSTM(3, 4, 2)
    x = pellucid.randn(5, 2, 3)
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert np.array_equal(module(x)[0].detach().numpy(), other(x)[0].detach().numpy())
    module.flatten_parameters()
    module.weight_hh_l0.requires_grad_(False)
    module(x)[0].sum().backward()
    assert module.weight_hh_l0.grad is None
    assert module.weight_ih_l0.grad is not None


def test_saturated_gates_are_exact():
    module = pellucid.nn.LSTM(1, 1)
    for parameter in module.parameters():
        parameter.data.fill_(500.0)
    y, _ = module(pellucid.tensor([[[1.0]], [[-1.0]]], requires_grad=True))
    assert np.all(np.isfinite(y.detach().numpy()))
    y.sum().backward()
    assert y[0].item() == pytest.approx(np.tanh(1.0), rel=1e-6)


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_half_precision(torch, name):
    found = []
    for lib in (pellucid, torch):
        lib.manual_seed(0)
        module = lib.nn.GRU(3, 4).to(getattr(lib, name))
        y, _ = module(lib.tensor(numbers(5, 2, 3)).to(getattr(lib, name)))
        assert str(y.dtype) == f"torch.{name}"
        found.append(y.detach().to(lib.float32).numpy())
    np.testing.assert_allclose(*found, atol=3e-2)


# --- errors


def _zeros(lib: Any, *shape: int) -> Any:
    return lib.zeros(*shape)


def _pair(lib: Any, *shapes: tuple[int, ...]) -> Any:
    return tuple(lib.zeros(*shape) for shape in shapes)


def _pack(lib: Any, *args: Any, **kwargs: Any) -> Any:
    return lib.nn.utils.rnn.pack_padded_sequence(*args, **kwargs)


MISTAKES = {
    "rank": lambda lib: lib.nn.RNN(4, 5)(_zeros(lib, 4)),
    "features": lambda lib: lib.nn.GRU(4, 5)(_zeros(lib, 3, 2, 5)),
    "no time": lambda lib: lib.nn.GRU(4, 5)(_zeros(lib, 0, 2, 4)),
    "dtype": lambda lib: lib.nn.LSTM(4, 5)(_zeros(lib, 3, 2, 4).double()),
    "rank of hx": lambda lib: lib.nn.GRU(4, 5)(_zeros(lib, 3, 2, 4), _zeros(lib, 2, 5)),
    "batched hx": lambda lib: lib.nn.GRU(4, 5)(_zeros(lib, 3, 4), _zeros(lib, 1, 2, 5)),
    "size of hx": lambda lib: lib.nn.GRU(4, 5)(_zeros(lib, 3, 2, 4), _zeros(lib, 1, 3, 5)),
    "size of cx": lambda lib: lib.nn.LSTM(4, 5)(_zeros(lib, 3, 2, 4), _pair(lib, (1, 2, 5), (1, 2, 6))),
    "rank of cx": lambda lib: lib.nn.LSTM(4, 5)(_zeros(lib, 3, 2, 4), _pair(lib, (1, 2, 5), (2, 5))),
    "only hx": lambda lib: lib.nn.LSTM(4, 5)(_zeros(lib, 3, 2, 4), _pair(lib, (1, 2, 5))),
    "packed hx": lambda lib: lib.nn.GRU(4, 5)(_pack(lib, _zeros(lib, 3, 2, 4), [3, 1]), _zeros(lib, 1, 3, 5)),
    "projection": lambda lib: lib.nn.GRU(4, 5, proj_size=2),
    "projection size": lambda lib: lib.nn.LSTM(4, 5, proj_size=5),
    "hidden size": lambda lib: lib.nn.LSTM(4, 0),
    "layers": lambda lib: lib.nn.LSTM(4, 5, 0),
    "input size": lambda lib: lib.nn.LSTM(4.0, 5),
    "dropout": lambda lib: lib.nn.LSTM(4, 5, dropout=2),
    "bias": lambda lib: lib.nn.LSTM(4, 5, bias=1),
    "nonlinearity": lambda lib: lib.nn.RNN(4, 5, nonlinearity="x"),
    "keyword": lambda lib: lib.nn.LSTM(4, 5, nonlinearity="tanh"),
    "mode": lambda lib: lib.nn.RNNBase("X", 4, 5),
    "cell rank": lambda lib: lib.nn.RNNCell(4, 5)(_zeros(lib, 2, 3, 4)),
    "cell features": lambda lib: lib.nn.GRUCell(4, 5)(_zeros(lib, 2, 3)),
    "cell batch": lambda lib: lib.nn.GRUCell(4, 5)(_zeros(lib, 2, 4), _zeros(lib, 3, 5)),
    "cell hidden": lambda lib: lib.nn.LSTMCell(4, 5)(_zeros(lib, 2, 4), _pair(lib, (2, 6), (2, 6))),
    "cell state rank": lambda lib: lib.nn.LSTMCell(4, 5)(_zeros(lib, 2, 4), _pair(lib, (1, 2, 5), (1, 2, 5))),
    "cell alone": lambda lib: lib.nn.RNNCell(4, 5)(_zeros(lib, 4), _zeros(lib, 2, 5)),
    "cell nonlinearity": lambda lib: lib.nn.RNNCell(4, 5, nonlinearity="x")(_zeros(lib, 2, 4)),
    "unsorted": lambda lib: _pack(lib, _zeros(lib, 3, 2), [1, 3]),
    "length zero": lambda lib: _pack(lib, _zeros(lib, 3, 2), [3, 0]),
    "too many lengths": lambda lib: _pack(lib, _zeros(lib, 3, 2), [3, 2, 1]),
    "a vector": lambda lib: _pack(lib, _zeros(lib, 3), [3]),
    "total length": lambda lib: lib.nn.utils.rnn.pad_packed_sequence(
        _pack(lib, _zeros(lib, 3, 1), [3]), total_length=2
    ),
    "no sequences": lambda lib: lib.nn.utils.rnn.pad_sequence([]),
    "no iterable": lambda lib: lib.nn.utils.rnn.pad_sequence(3),
    "side": lambda lib: lib.nn.utils.rnn.pad_sequence([_zeros(lib, 3)], padding_side="x"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_refused_alike(torch, name):
    with pytest.raises(Exception) as mine:
        MISTAKES[name](pellucid)
    with pytest.raises(Exception) as its:
        MISTAKES[name](torch)
    assert type(mine.value) is type(its.value)
    words = str(its.value).split("\n")[0].split(". ")[0][:40]
    if name not in ("only hx", "cell alone"):  # there the class is enough
        assert words.replace(" tensor", "") in str(mine.value).replace(" tensor", ""), str(mine.value)


@pytest.mark.parametrize("rows", [(1,), (3,), ()], ids=["one row", "a row each", "one number"])
@pytest.mark.parametrize(("name", "gates"), [("RNNCell", 1), ("LSTMCell", 4), ("GRUCell", 3)])
def test_a_cells_biases_may_have_any_shape_that_broadcasts(torch, name, gates, rows):
    found = []
    for lib in (pellucid, torch):
        lib.manual_seed(0)
        cell, shape = getattr(lib.nn, name)(4, 5), (*rows, 5 * gates) if rows else (1,)
        cell.bias_ih, cell.bias_hh = lib.nn.Parameter(lib.randn(shape)), lib.nn.Parameter(lib.randn(shape))
        y = cell(lib.randn(3, 4))
        y = y[0] if isinstance(y, tuple) else y
        (y * y).sum().backward()
        found.append([np.asarray(each.detach()) for each in (y, cell.bias_ih.grad, cell.bias_hh.grad)])
    for mine, its in zip(*found, strict=True):
        assert mine.shape == its.shape
        np.testing.assert_allclose(mine, its, **CLOSE["float32"])


def test_dropout_of_one_layer_is_warned_of():
    with pytest.warns(UserWarning, match="dropout option adds dropout after all but last"):
        pellucid.nn.LSTM(2, 3, dropout=0.5)


def test_a_sequence_longer_than_its_tensor_is_refused():
    with pytest.raises(RuntimeError, match="does not fit a tensor of 3 time steps"):
        _pack(pellucid, pellucid.zeros(3, 2), [4, 3])


# --- sequences of several lengths

PACKINGS = {
    "packed": lambda lib, r, x: r.pack_padded_sequence(x, [3, 2, 2, 1]),
    "packed by batch": lambda lib, r, x: r.pack_padded_sequence(x.transpose(0, 1), lib.tensor([3, 2, 2, 1]), True),
    "packed in any order": lambda lib, r, x: r.pack_padded_sequence(x, [1, 3, 2, 3], enforce_sorted=False),
    "there and back": lambda lib, r, x: r.pad_packed_sequence(
        r.pack_padded_sequence(x, [1, 3, 2, 3], enforce_sorted=False), True, -1.0, 5
    ),
    "padded": lambda lib, r, x: r.pad_sequence([x[:2, 0], x[:, 1], x[:1, 2]], padding_value=7.0),
    "padded left": lambda lib, r, x: r.pad_sequence([x[:2, 0], x[:, 1]], True, padding_side="left"),
    "padded tensor": lambda lib, r, x: r.pad_sequence(x),
    "padded numbers": lambda lib, r, x: r.pad_sequence([x[:2, 0, 0], x[:, 1, 0]]),
    "packed list": lambda lib, r, x: r.pack_sequence([x[:2, 0], x[:, 1], x[:1, 2]], enforce_sorted=False),
    "unpacked": lambda lib, r, x: r.unpack_sequence(r.pack_sequence([x[:1, 0], x[:, 1]], enforce_sorted=False)),
    "unpadded": lambda lib, r, x: r.unpad_sequence(x.clone(), lib.tensor([3, 1, 2, 2])),
    "inverse": lambda lib, r, x: [r.invert_permutation(lib.tensor([2, 0, 1])), r.invert_permutation(None)],
    "converted": lambda lib, r, x: r.pack_padded_sequence(x, [3, 2, 2, 1]).to(lib.float32).data,
    "as pair": lambda lib, r, x: r.PackedSequence((x, lib.tensor([2, 1]))),
    "indices": lambda lib, r, x: r.PackedSequence(x, lib.tensor([2, 1]), lib.tensor([1, 0])),
}


@pytest.mark.parametrize("name", PACKINGS)
def test_packing(torch, name):
    found = []
    for lib in (pellucid, torch):
        x = lib.tensor(numbers(3, 4, 2), requires_grad=True)
        parts = leaves(PACKINGS[name](lib, lib.nn.utils.rnn, x))
        tensors = [part for part in parts if part is not None]
        real = [part for part in tensors if part.requires_grad]
        if real:
            weighted(real, lib).backward()
        found.append([part.detach().numpy() for part in tensors] + ([x.grad.numpy()] if real else []))
    for mine, its in zip(*found, strict=True):
        assert mine.dtype == its.dtype
        np.testing.assert_allclose(mine, its, rtol=1e-6)
