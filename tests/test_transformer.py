"""MultiheadAttention and the Transformer against PyTorch's: bits, texts, outputs, weights, gradients, errors."""

import copy
import pickle
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import pellucid

CLOSE = {"float64": {"rtol": 1e-10, "atol": 1e-12}, "float32": {"rtol": 2e-4, "atol": 2e-5}}


@dataclass
class Case:
    """A constructor call and the inputs of a forward call: shapes of learned tensors, or arrays that are not."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    inputs: tuple[Any, ...]
    options: dict[str, Any] = field(default_factory=dict)
    train: bool = False

    def __str__(self) -> str:
        words = [*map(str, self.args), *(f"{key}={value}" for key, value in self.kwargs.items())]
        how = [key if isinstance(value, np.ndarray) else f"{key}={value}" for key, value in self.options.items()]
        return f"{self.name}({','.join(words)}) {self.inputs} {' '.join(how)}"


HIDDEN = np.array([[False, False, True, True], [False, False, False, False], [False, False, False, True]])  # keys
UPPER = np.triu(np.ones((5, 4), bool), 2)
CAUSAL = np.triu(np.full((4, 4), -np.inf), 1)
QUERY, KEYS = (5, 3, 8), (4, 3, 8)
SELF = ((4, 3, 8), "same", "same")


def attention(*inputs: Any, train: bool = False, new: dict[str, Any] | None = None, **options: Any) -> Case:
    return Case("MultiheadAttention", (8, 2), new or {}, inputs, options, train)


CASES = [
    attention(*SELF),
    attention(QUERY, KEYS, "same"),
    attention(QUERY, KEYS, KEYS, need_weights=False),
    attention(QUERY, KEYS, KEYS, average_attn_weights=False),
    attention(QUERY, KEYS, KEYS, key_padding_mask=HIDDEN),
    attention(QUERY, KEYS, KEYS, key_padding_mask=HIDDEN, attn_mask=UPPER, need_weights=False),
    attention(QUERY, KEYS, KEYS, attn_mask=np.linspace(-1, 1, 20).reshape(5, 4)),
    attention(QUERY, KEYS, KEYS, attn_mask=np.linspace(-1, 1, 120).reshape(6, 5, 4), need_weights=False),
    attention(*SELF, attn_mask=CAUSAL, is_causal=True, need_weights=False),
    attention(*SELF, attn_mask=CAUSAL, is_causal=True),
    attention((5, 8), (4, 8), (4, 8)),
    attention((5, 8), (4, 8), "same", key_padding_mask=HIDDEN[0], need_weights=False, new={"batch_first": True}),
    attention((3, 5, 8), (3, 4, 8), (3, 4, 8), new={"batch_first": True}),
    attention((3, 4, 8), "same", "same", key_padding_mask=HIDDEN, new={"batch_first": True, "bias": False}),
    attention(QUERY, (4, 3, 6), (4, 3, 5), new={"kdim": 6, "vdim": 5}),
    attention(QUERY, KEYS, KEYS, key_padding_mask=HIDDEN, new={"add_bias_kv": True, "add_zero_attn": True}),
    attention(QUERY, KEYS, KEYS, attn_mask=UPPER, new={"add_zero_attn": True, "bias": False}),
    attention(*SELF, train=True, new={"dropout": 0.3}),
]

ENCODER, DECODER = "TransformerEncoderLayer", "TransformerDecoderLayer"
CASES += [
    Case(name, (8, 2, 16), kwargs, inputs, options, train)
    for name, kwargs, inputs, options, train in (
        (ENCODER, {}, (KEYS,), {}, False),
        (ENCODER, {"dropout": 0.2}, (KEYS,), {}, True),
        (ENCODER, {"norm_first": True, "activation": "gelu"}, (KEYS,), {"src_mask": CAUSAL}, False),
        (ENCODER, {"batch_first": True, "bias": False}, ((3, 4, 8),), {"src_key_padding_mask": HIDDEN}, False),
        (ENCODER, {"layer_norm_eps": 0.1}, ((4, 8),), {"src_mask": CAUSAL, "is_causal": True}, False),
        (DECODER, {}, (QUERY, KEYS), {}, False),
        (DECODER, {"dropout": 0.2}, (QUERY, KEYS), {}, True),
        (DECODER, {"norm_first": True, "bias": False}, (QUERY, KEYS), {"memory_mask": UPPER}, False),
        (
            DECODER, {"batch_first": True, "activation": "gelu"}, ((3, 4, 8), (3, 4, 8)),
            {"tgt_mask": CAUSAL, "memory_key_padding_mask": HIDDEN, "tgt_is_causal": True}, False,
        ),
    )
]  # fmt: skip
CASES += [
    Case("Transformer", (8, 2, 2, 1, 16), kwargs, inputs, options, train)
    for kwargs, inputs, options, train in (
        ({}, (KEYS, QUERY), {}, False),
        ({"dropout": 0.1}, (KEYS, QUERY), {}, True),
        ({"batch_first": True, "norm_first": True}, ((3, 4, 8), (3, 4, 8)), {"tgt_mask": CAUSAL}, False),
        ({"bias": False}, ((4, 8), (5, 8)), {"src_mask": CAUSAL, "src_is_causal": True}, False),
        ({}, (KEYS, KEYS), {"src_key_padding_mask": HIDDEN, "memory_key_padding_mask": HIDDEN}, True),
    )
]  # fmt: skip


def made(lib: Any, case: Case) -> Any:
    lib.manual_seed(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(lib.nn, case.name)(*case.args, **case.kwargs).train(case.train)


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).uniform(-1.5, 1.5, shape)


def tensor_of(lib: Any, value: Any, dtype: Any) -> Any:
    """An option: an array becomes a tensor, of numbers in the dtype that is tested."""
    if not isinstance(value, np.ndarray):
        return value
    return lib.tensor(value) if value.dtype == bool else lib.tensor(value, dtype=dtype)


def run(lib: Any, case: Case, dtype: str) -> tuple[list[np.ndarray], list[Any]]:
    """All results, then the gradients of inputs and parameters."""
    kind = getattr(lib, dtype)
    module = made(lib, case).to(kind)
    inputs: list[Any] = []
    for i, shape in enumerate(case.inputs):
        same = shape == "same"
        inputs.append(inputs[-1] if same else lib.tensor(numbers(*shape) + 0.1 * i, dtype=kind, requires_grad=True))
    lib.manual_seed(5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = module(*inputs, **{key: tensor_of(lib, value, kind) for key, value in case.options.items()})
    results = [part for part in (out if isinstance(out, tuple) else (out,)) if part is not None]
    loss = sum((y * lib.tensor(numbers(*y.shape), dtype=kind)).sum() for y in results)
    unique = list({id(x): x for x in inputs}.values())
    grads = lib.autograd.grad(loss, [*unique, *module.parameters()])
    return [y.detach().numpy() for y in results], [g.numpy() for g in grads]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_outputs_and_gradients(torch, case, dtype):
    (mine, my_grads), (its, its_grads) = run(pellucid, case, dtype), run(torch, case, dtype)
    for a, b in zip([*mine, *my_grads], [*its, *its_grads], strict=True):
        np.testing.assert_allclose(a, b, **CLOSE[dtype])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_text_and_initial_bits(torch, case):
    ours, its = made(pellucid, case), made(torch, case)
    assert repr(ours) == repr(its)
    mine, theirs = ours.state_dict(), its.state_dict()
    assert list(mine) == list(theirs)
    for name in theirs:
        assert mine[name].numpy().tobytes() == theirs[name].numpy().tobytes(), name


STACKS = {
    "encoder": lambda nn: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, 0.1), 3),
    "encoder with norm": lambda nn: nn.TransformerEncoder(
        nn.TransformerEncoderLayer(8, 2, 16, 0.0), 2, nn.LayerNorm(8), enable_nested_tensor=False
    ),
    "decoder": lambda nn: nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, 0.1), 2, nn.LayerNorm(8)),
}


@pytest.mark.parametrize("name", STACKS)
def test_stacks(torch, name):
    found = []
    for lib in (pellucid, torch):
        lib.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = STACKS[name](lib.nn).double()
        inputs = [lib.tensor(numbers(4, 3, 8))] + [lib.tensor(numbers(5, 3, 8))] * (name == "decoder")
        y = model(*inputs)
        y.sin().sum().backward()
        found.append([repr(model), list(model.state_dict()), y.detach().numpy(), [p.grad for p in model.parameters()]])
    (text, keys, y, grads), (its_text, its_keys, its_y, its_grads) = found
    assert (text, keys) == (its_text, its_keys)
    np.testing.assert_allclose(y, its_y, **CLOSE["float64"])
    for mine, its in zip(grads, its_grads, strict=True):
        np.testing.assert_allclose(mine.numpy(), its.numpy(), rtol=1e-9, atol=1e-12)


def test_second_order(torch):
    found = []
    for lib in (pellucid, torch):
        lib.manual_seed(0)
        layer = lib.nn.TransformerEncoderLayer(4, 2, 6, 0.0, "gelu").double()
        x = lib.tensor(numbers(3, 2, 4), requires_grad=True)
        with lib.nn.attention.sdpa_kernel(lib.nn.attention.SDPBackend.MATH):  # PyTorch's others have no second order
            (first,) = lib.autograd.grad(layer(x).sin().sum(), x, create_graph=True)
        found.append([g.numpy() for g in lib.autograd.grad((first * first).sum(), [x, *layer.parameters()])])
    for mine, its in zip(*found, strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-8, atol=1e-10)


def test_an_activation_of_ones_own():
    layer = pellucid.nn.TransformerEncoderLayer(4, 2, 6, 0.0, activation=lambda x: x * 0)
    other = pellucid.nn.TransformerEncoderLayer(4, 2, 6, 0.0)
    assert layer.activation(3) == 0
    assert other.activation is pellucid.nn.functional.relu
    assert layer(pellucid.ones(3, 2, 4)).shape == (3, 2, 4)


def test_a_layer_of_ones_own_may_replace_a_block():
    class Quiet(pellucid.nn.TransformerEncoderLayer):
        def _sa_block(self, x: Any, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False) -> Any:
            return x * 0

    y = Quiet(4, 2, 6, 0.0, norm_first=True)(pellucid.ones(3, 2, 4))
    assert y.shape == (3, 2, 4)


def test_layers_of_a_stack_are_copies():
    layer = pellucid.nn.TransformerEncoderLayer(4, 2, 6)
    stack = pellucid.nn.TransformerEncoder(layer, 2)
    assert stack.layers[0].linear1.weight is not stack.layers[1].linear1.weight
    assert all(np.array_equal(a.detach(), layer.linear1.weight.detach()) for a in [stack.layers[1].linear1.weight])
    for other in (copy.deepcopy(stack), pickle.loads(pickle.dumps(stack))):
        assert repr(other) == repr(stack)


def test_causal_masks(torch):
    for lib, make in ((pellucid, pellucid.nn.Transformer), (torch, torch.nn.Transformer)):
        mask = make.generate_square_subsequent_mask(3, dtype=lib.float64)
        assert np.array_equal(mask.numpy(), CAUSAL[:3, :3])


def test_a_causal_model_does_not_see_the_future():
    pellucid.manual_seed(0)
    model = pellucid.nn.TransformerEncoder(pellucid.nn.TransformerEncoderLayer(8, 2, 16, 0.0), 2).eval()
    x = pellucid.randn(6, 1, 8)
    mask = pellucid.nn.Transformer.generate_square_subsequent_mask(6)
    before = model(x, mask=mask, is_causal=True)
    x[4:] = 0.0
    after = model(x, mask=mask, is_causal=True)
    np.testing.assert_allclose(before[:4].detach(), after[:4].detach(), rtol=1e-5, atol=1e-6)
    assert not np.allclose(before[4:].detach(), after[4:].detach())


def test_attention_has_its_homes():
    from pellucid.nn.modules.multihead import MultiheadAttention

    assert pellucid.nn.MultiheadAttention is MultiheadAttention


def test_kernels_of_attention_are_accepted(torch):
    from pellucid.nn.attention import SDPBackend, sdpa_kernel

    its = torch.nn.attention.SDPBackend.__members__
    assert {name: each.value for name, each in SDPBackend.__members__.items()} == {k: v.value for k, v in its.items()}
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]):
        pellucid.nn.functional.scaled_dot_product_attention(*[pellucid.ones(1, 2, 4)] * 3)
    with pytest.raises(AssertionError, match="Backend must be an instance"), sdpa_kernel(3):
        pass


X = (3, 2, 8)
MISTAKES = {
    "heads": lambda t: t.nn.MultiheadAttention(8, 3),
    "no size": lambda t: t.nn.MultiheadAttention(0, 2),
    "value": lambda t: t.nn.MultiheadAttention(8, 2)(t.zeros(X), t.zeros(X), t.zeros(2, 2, 8)),
    "rank": lambda t: t.nn.MultiheadAttention(8, 2)(t.zeros(8), t.zeros(X), t.zeros(X)),
    "padding": lambda t: t.nn.MultiheadAttention(8, 2)(t.zeros(X), *[t.zeros(X)] * 2, key_padding_mask=t.zeros(3, 2)),
    "mask": lambda t: t.nn.MultiheadAttention(8, 2)(t.zeros(X), *[t.zeros(X)] * 2, attn_mask=t.zeros(2, 2)),
    "causal": lambda t: t.nn.MultiheadAttention(8, 2)(t.zeros(X), t.zeros(X), t.zeros(X), is_causal=True),
    "width": lambda t: t.nn.MultiheadAttention(8, 2)(t.zeros(3, 2, 6), t.zeros(X), t.zeros(X)),
    "activation": lambda t: t.nn.TransformerEncoderLayer(8, 2, activation="x"),
    "batch": lambda t: t.nn.Transformer(8, 2, 1, 1, 8)(t.zeros(3, 2, 8), t.zeros(3, 1, 8)),
    "features": lambda t: t.nn.Transformer(8, 2, 1, 1, 8)(t.zeros(3, 2, 8), t.zeros(3, 2, 7)),
}


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_refused_alike(torch, name):
    errors = []
    for lib in (pellucid, torch):
        with pytest.raises(Exception) as raised:
            MISTAKES[name](lib)
        errors.append(raised.value)
    assert type(errors[0]) is type(errors[1])
    assert str(errors[1])[:40] in str(errors[0])


@pytest.mark.parametrize("options", ["", "is_causal=True", "attn_mask=mask", "attn_mask=mask.float()", "dropout_p=0.1"])
@pytest.mark.parametrize("kind", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("apart", [False, True])
def test_attention_is_laid_out_like_its_query(torch, options, kind, apart):
    found = []
    for lib in (pellucid, torch):
        x = lib.ones(2, 5, 3, 3, 4, dtype=getattr(lib, kind), requires_grad=True)
        query, key, value = x.permute(3, 0, 2, 1, 4)  # cut out of rows, as programs do it
        if apart:
            query, key, value = (each.contiguous() for each in (query, key, value))
        scope = {"lib": lib, "q": query, "k": key, "v": value, "mask": lib.ones(5, 5, dtype=lib.bool)}
        if "float" in options and kind == "float64":
            options = "attn_mask=mask.double()"
        y = eval(f"lib.nn.functional.scaled_dot_product_attention(q, k, v, {options})", scope)
        y.transpose(1, 2).reshape(2, 5, 12).sum().backward()
        found.append((y.shape, y.stride(), y.transpose(1, 2).is_contiguous(), x.grad.shape))
    assert found[0] == found[1]
