"""Trust T10: shapes that are empty, have no dimensions, very many, or sizes that no memory holds.

The answer is the right one, or an error that says what is wrong, at once: no request may be passed on to the system
in the hope that it will fail. The tests of the impossible run under a limit on address space, so that a mistake is a
MemoryError here and not the end of the machine.
"""

import math
import resource
import time
import warnings
from typing import Any

import numpy as np
import pytest

import pellucid

B = 2**32
LIMIT = 0.1  # seconds of this process, so that a busy machine does not matter

# --- empty shapes and 0-d: the shape of the result of an expression of x = torch.ones(shape), or the error

SHAPES = [(0,), (0, 3), (3, 0), ()]
SMALL: list[tuple[Any, ...]] = [
    # expression, then x of shape (0,), (0, 3), (3, 0), ()
    ("x.sum()", (), (), (), ()),
    ("x.mean()", (), (), (), ()),
    ("x.prod()", (), (), (), ()),
    ("x.max()", "RuntimeError", "RuntimeError", "RuntimeError", ()),
    ("x.amax(0)", "IndexError", "IndexError", (0,), ()),
    ("x.argmax()", "IndexError", "IndexError", "IndexError", ()),
    ("x.argmax(0)", "IndexError", "IndexError", (0,), ()),
    ("x.any()", (), (), (), ()),
    ("x.all()", (), (), (), ()),
    ("x.std()", (), (), (), ()),
    ("x.var(0)", (), (3,), (0,), ()),
    ("x.median()", (), (), (), ()),
    ("x.norm()", (), (), (), ()),
    ("x.logsumexp(0)", (), (3,), (0,), ()),
    ("x.sum(0)", (), (3,), (0,), ()),
    ("x.sum(-1, keepdim=True)", (1,), (0, 1), (3, 1), ()),
    ("x.cumsum(0)", (0,), (0, 3), (3, 0), ()),
    ("x.cumprod(-1)", (0,), (0, 3), (3, 0), ()),
    ("x.cummax(0).values", (0,), (0, 3), (3, 0), ()),
    ("x.softmax(0)", (0,), (0, 3), (3, 0), ()),
    ("x.log_softmax(-1)", (0,), (0, 3), (3, 0), ()),
    ("x.sort().values", (0,), (0, 3), (3, 0), ()),
    ("x.argsort()", (0,), (0, 3), (3, 0), ()),
    ("x.kthvalue(1).values", "IndexError", (0,), "IndexError", ()),
    ("x.unique()", (0,), (0,), (0,), (1,)),
    ("x.nonzero()", (0, 1), (0, 2), (0, 2), (1, 0)),
    ("x.exp()", (0,), (0, 3), (3, 0), ()),
    ("x + x", (0,), (0, 3), (3, 0), ()),
    ("x * 2", (0,), (0, 3), (3, 0), ()),
    ("x / torch.ones(3)", "RuntimeError", (0, 3), "RuntimeError", (3,)),
    ("x @ x", (), "RuntimeError", "RuntimeError", "RuntimeError"),
    ("x.transpose(0, -1)", (0,), (3, 0), (0, 3), ()),
    ("x.t()", (0,), (3, 0), (0, 3), ()),
    ("x.reshape(-1)", (0,), (0,), (0,), (1,)),
    ("x.reshape(0)", (0,), (0,), (0,), "RuntimeError"),
    ("x.flatten()", (0,), (0,), (0,), (1,)),
    ("x.squeeze()", (0,), (0, 3), (3, 0), ()),
    ("x.unsqueeze(0)", (1, 0), (1, 0, 3), (1, 3, 0), (1,)),
    ("x.expand(2, 0, 3)", "RuntimeError", (2, 0, 3), "RuntimeError", (2, 0, 3)),
    ("x.repeat(2, 2)", (2, 0), (0, 6), (6, 0), (2, 2)),
    ("x.flip(0)", (0,), (0, 3), (3, 0), ()),
    ("x.roll(1, 0)", (0,), (0, 3), (3, 0), "IndexError"),
    ("x[0]", "IndexError", "IndexError", (0,), "IndexError"),
    ("x[:0]", (0,), (0, 3), (0, 0), "IndexError"),
    ("x[None]", (1, 0), (1, 0, 3), (1, 3, 0), (1,)),
    ("x[...]", (0,), (0, 3), (3, 0), ()),
    ("x[x > 0]", (0,), (0,), (0,), (1,)),
    ("x.split(1)[0]", (0,), (0, 3), (1, 0), "RuntimeError"),
    ("x.chunk(2)[0]", (0,), (0, 3), (2, 0), "RuntimeError"),
    ("x.unbind()", "0 parts", "0 parts", "3 parts", "IndexError"),
    ("torch.cat([x, x])", (0,), (0, 3), (6, 0), "RuntimeError"),
    ("torch.stack([x, x])", (2, 0), (2, 0, 3), (2, 3, 0), (2,)),
    ("x.diagonal()", "IndexError", (0,), (0,), "IndexError"),
    ("x.diff()", (0,), (0, 2), (3, 0), "RuntimeError"),
    ("x.clamp(0, 1)", (0,), (0, 3), (3, 0), ()),
    ("torch.where(x > 0, x, x)", (0,), (0, 3), (3, 0), ()),
    ("x.index_select(0, torch.tensor([], dtype=torch.int64))", (0,), (0, 3), (0, 0), "RuntimeError"),
    ("x.masked_fill(x > 0, 1.0)", (0,), (0, 3), (3, 0), ()),
    ("x.quantile(0.5)", "RuntimeError", "RuntimeError", "RuntimeError", ()),
    ("torch.einsum('...->', x)", (), (), (), ()),
    ("x.dot(x)", (), "RuntimeError", "RuntimeError", "RuntimeError"),
    ("torch.zeros_like(x)", (0,), (0, 3), (3, 0), ()),
    ("x.item()", "RuntimeError", "RuntimeError", "RuntimeError", "1.0"),
    ("x.tolist()", "[]", "[]", "[[], [], []]", "1.0"),
]  # fmt: skip


def outcome(library: Any, expression: str, shape: tuple[int, ...]) -> Any:
    """The shape of the result, the number of its parts, its text, or the class of the error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            y = eval(expression, {"torch": library, "x": library.ones(shape)})
        except Exception as error:
            return type(error).__name__
    if isinstance(y, tuple):
        return f"{len(y)} parts"
    return tuple(y.shape) if hasattr(y, "shape") else repr(y)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_small_shapes(shape: tuple[int, ...]) -> None:
    expected = {row[0]: row[1 + SHAPES.index(shape)] for row in SMALL}
    assert {expression: outcome(pellucid, expression, shape) for expression in expected} == expected


def test_small_shapes_in_pytorch(torch: Any) -> None:
    for expression, *expected in SMALL:
        assert [outcome(torch, expression, shape) for shape in SHAPES] == expected, expression


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)], ids=str)
def test_values_of_nothing(shape: tuple[int, ...]) -> None:
    x = pellucid.ones(shape)
    values = [x.sum(), x.prod(), x.mean(), x.norm(), x.any(), x.all(), x.logsumexp(tuple(range(x.ndim)))]
    np.testing.assert_array_equal([value.item() for value in values], [0, 1, math.nan, 0, False, True, -math.inf])


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), ()], ids=str)
@pytest.mark.parametrize(
    "expression",
    [
        "x.sum()",
        "(x * x).sum(0)",
        "x.exp().mean()",
        "x.cumsum(0)",
        "x.softmax(-1)",
        "x.reshape(-1)",
        "x[None].flip(0)",
        "x[None] * x",
    ],
)
def test_gradients_of_small_shapes(expression: str, shape: tuple[int, ...]) -> None:
    x = pellucid.ones(shape, requires_grad=True)
    eval(expression, {"x": x}).sum().backward()
    assert tuple(x.grad.shape) == shape


# --- sizes that no memory holds, and sizes that are none


# Asked for by size alone: refused before the system is asked for anything, so never by a MemoryError.
CREATED = [
    *(f"torch.{name}(B, B)" for name in ("zeros", "ones", "empty", "rand", "randn", "eye")),
    *(f"torch.{name}(0, B, B)" for name in ("zeros", "ones", "empty", "rand", "randn")),
    *(f"torch.{name}(B, 0, B)" for name in ("zeros", "ones", "empty")),
    *(f"torch.zeros(B, B, dtype=torch.{name})" for name in ("bool", "int8", "bfloat16", "float64", "complex128")),
    *(f"torch.zeros(2**{k})" for k in (38, 40, 48, 60, 61, 62, 63, 64, 100)),
    *(f"torch.empty(2**{k}, dtype=torch.int8)" for k in (40, 50, 62, 63)),
    "torch.zeros((B, B))", "torch.zeros([B, B])", "torch.zeros(*(2,) * 63)", "torch.zeros(*(3,) * 60)",
    "torch.full((B, B), 1.0)", "torch.full((2**40,), True)", "torch.randint(5, (B, B))",
    "torch.normal(0.0, 1.0, (B, B))",
    "torch.eye(B)", "torch.eye(2**20)", "torch.eye(1, 2**60)", "torch.randperm(2**50)",
    "torch.arange(0, 1e18)", "torch.arange(2**62)", "torch.arange(0, 1, 1e-18)", "torch.arange(-(2**62), 2**62)",
    "torch.arange(math.inf)", "torch.arange(math.nan)", "torch.linspace(0, 1, 2**60)", "torch.logspace(0, 1, 2**60)",
    "torch.empty_strided((B, B), (0, 0))", "torch.empty_strided((B, B), (1, 1))", "torch.empty_strided((2,), (2**62,))",
    "torch.tril_indices(B, B)", "torch.triu_indices(B, B)", "torch.tril_indices(2**20, 2**20)",
    "x.new_zeros((B, B))", "x.new_ones((B, B))", "x.new_empty((B, B))", "x.new_full((B, B), 2.0)",
]  # fmt: skip

# Out of a small tensor; what it takes shows only when the result is made.
DERIVED = [
    "x.expand(B, B, 3)", "one.expand(2**62, 4)", "one.expand(B, B)", "one.expand(2**40).clone()",
    "one.expand(2**20, 2**20) + 1", "one.expand(2**20, 2**20).contiguous()", "one.expand(2**20, 2**20).exp()",
    "one.expand(2**20, 2**20).reshape(-1).clone()", "one.expand(2**40).double()",
    "x.repeat(2**60)", "x.repeat(B, B)", "x.repeat(2**38)", "x.repeat(2**31, 2**31)", "x.tile(2**60)", "x.tile((B, B))",
    "x.repeat_interleave(2**60)", "x.repeat_interleave(2**40)", "x.reshape(B, B)", "x.view(B, B)",
    "torch.ones(0).reshape(B, B, 0)", "torch.ones(0).view(0, B, B)", "x.unflatten(0, (B, B))",
    "x.as_strided((B, B), (0, 0))", "x.as_strided((B,), (1,))", "x.as_strided((2,), (2**61,))",
    "torch.diag_embed(one.expand(B))", "torch.diag(one.expand(B))", "torch.diag(torch.ones(2**20))",
    "wide[:, None] + wide", "wide[:, None] * wide", "wide[:, None] < wide", "torch.maximum(wide[:, None], wide)",
    "wide[:, None] @ wide[None]", "torch.outer(wide, wide)", "torch.kron(wide, wide)",
    "torch.where(wide[:, None] > 0, wide, 0.0)",
    "torch.einsum('i,j->ij', wide, wide)", "torch.tensordot(wide, wide, 0)", "torch.cartesian_prod(wide, wide, wide)",
    "torch.bincount(torch.tensor([2**40]))", "torch.bincount(torch.tensor([2**62]))",
    "torch.bincount(torch.tensor([1]), minlength=2**60)", "torch.histc(x, bins=2**60)", "torch.histc(x, bins=2**40)",
    "torch.multinomial(x, 2**40, replacement=True)", "torch.bernoulli(one.expand(2**40))",
    "torch.stack([one.expand(2**40)] * 2)", "torch.cat([one.expand(2**40)] * 2)", "x.topk(2**40)", "x.kthvalue(2**40)",
    "x.narrow(0, 0, 2**62)", "x.narrow(0, 2**62, 1)", "x.select(0, 2**62)", "x[2**62]", "x[2**70]", "x[-(2**62)]",
    "x.unsqueeze(2**40)", "x.sum(2**40)", "x.flip(2**40)", "x.movedim(0, 2**40)", "x.unfold(0, 2**40, 1)",
]  # fmt: skip

NEGATIVE = [
    *(f"torch.{name}(-1)" for name in ("zeros", "ones", "empty", "rand", "randn", "eye", "randperm")),
    *(f"torch.{name}(2, -3)" for name in ("zeros", "ones", "empty", "rand", "randn", "eye")),
    "torch.tril_indices(2, -3)", "torch.triu_indices(2, -3)",
    *(f"torch.{name}(-(2**62), -(2**62))" for name in ("zeros", "ones", "empty", "rand")),
    "torch.zeros(0, -1)", "torch.full((-1,), 1.0)", "torch.randint(3, (-1,))", "torch.normal(0.0, 1.0, (-1,))",
    "torch.arange(0, -5)", "torch.arange(0, 5, -1)", "torch.arange(0, 1, 0)", "torch.linspace(0, 1, -1)",
    "torch.logspace(0, 1, -1)", "torch.empty_strided((-1,), (1,))", "torch.empty_strided((2,), (-1,))",
    "x.expand(-2, 3)", "x.expand(-1, 3)", "x.repeat(-1)", "x.tile(-1)", "x.repeat_interleave(-1)", "x.reshape(-1, -1)",
    "x.reshape(-2)", "x.reshape(2, -1)", "torch.ones(0).reshape(-1, 0)", "x.view(-3)", "x.unflatten(0, (-1, -1))",
    "x.as_strided((-1,), (1,))", "x.as_strided((1,), (-1,))", "x.as_strided((1,), (1,), -1)", "x.split(-1)",
    "x.chunk(-1)",
    "x.chunk(0)", "x.tensor_split(-1)", "x.unfold(0, -1, 1)", "x.unfold(0, 1, 0)", "x.narrow(0, 0, -1)", "x.topk(-1)",
    "x.kthvalue(0)", "x.new_zeros(-1)", "x.new_empty((2, -1))", "torch.bincount(torch.tensor([1]), minlength=-1)",
    "torch.bincount(torch.tensor([-1]))", "torch.histc(x, bins=0)", "torch.multinomial(x, -1)", "x.diff(-1)",
    "torch.zeros(2.5)", "torch.zeros('3')", "torch.zeros(None)", "torch.zeros(1e30)",
]  # fmt: skip

REFUSALS = (RuntimeError, IndexError, TypeError, ValueError)


@pytest.fixture(scope="module")
def little_room():
    """A gigabyte more than now, and not a byte beyond."""
    with open("/proc/self/statm") as statm:
        now = int(statm.read().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + 2**30, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, limits)


NAMES = {
    "torch": pellucid, "math": math, "B": B,
    "x": pellucid.ones(3), "one": pellucid.ones(1), "wide": pellucid.ones(2**20),
}  # fmt: skip


@pytest.mark.parametrize("expression", [*CREATED, *DERIVED, *NEGATIVE])
def test_the_impossible_is_refused_at_once(expression: str, little_room: None) -> None:
    pellucid.ops.load_families()  # once; it is not the refusal that takes this time
    began = time.process_time()
    with pytest.raises((*REFUSALS, MemoryError) if expression in DERIVED else REFUSALS) as refused:
        eval(expression, NAMES)
    took = time.process_time() - began
    assert took < LIMIT
    message = str(refused.value)
    assert len(message) > 15, f"says little: {message!r}"


@pytest.mark.parametrize(
    ("expression", "shape"),
    [
        ("one.expand(2**40)", (2**40,)),
        ("one.expand(2**20, 2**20)[5, 7:9]", (2,)),
        ("torch.meshgrid(wide, wide, indexing='ij')[0]", (2**20, 2**20)),
        ("torch.zeros(0, B)", (0, B)),
        ("torch.zeros(B, 0).sum(0)[:0]", (0,)),
        ("x.split(2**62)[0]", (3,)),
        ("x.chunk(2**40)[2]", (1,)),
        ("x[:2**62]", (3,)),
        ("x[2**62:]", (0,)),
        ("x.roll(2**62)", (3,)),
        ("x.diff(2**40)", (0,)),
        ("torch.triu(torch.ones(2, 2), 2**40)", (2, 2)),
        ("x.repeat(0)", (0,)),
        ("torch.linspace(0, 1, 0)", (0,)),
        ("torch.arange(0)", (0,)),
        ("torch.eye(0)", (0, 0)),
        ("torch.tril_indices(0, 3)", (2, 0)),
    ],
)
def test_the_unusual_is_done_at_once(expression: str, shape: tuple[int, ...], little_room: None) -> None:
    began = time.process_time()
    assert tuple(eval(expression, NAMES).shape) == shape
    assert time.process_time() - began < LIMIT


# --- many dimensions: PyTorch and NumPy allow 64


@pytest.mark.parametrize("rank", [31, 32, 33, 63, 64])
def test_many_dimensions(rank: int) -> None:
    shape = (1,) * (rank - 2) + (2, 3)
    x = pellucid.arange(6.0).reshape(shape).requires_grad_()
    y = (x * x + x).transpose(0, -1).sum(-2, keepdim=True).squeeze()
    y.sum().backward()
    assert tuple(x.grad.shape) == shape
    assert x.grad.flatten().tolist() == [1.0, 3.0, 5.0, 7.0, 9.0, 11.0]
    assert x.max().item() == 5.0
    assert x.argmax().item() == 5
    assert tuple(x.permute(*reversed(range(rank))).shape) == shape[::-1]
    assert tuple(x[(0,) * (rank - 1)].shape) == (3,)
    assert tuple(x.softmax(-1).shape) == shape
    assert tuple(pellucid.cat([x, x], -1).shape) == (*shape[:-1], 6)
    assert tuple((x @ x.mT).shape) == (*shape[:-1], 2)


@pytest.mark.parametrize(
    "expression",
    [
        "torch.ones((1,) * 65)",
        "x.unsqueeze(0)",
        "x[None]",
        "x.expand(1, *x.shape)",
        "x.reshape((1,) * 65)",
        "torch.stack([x])",
    ],
)
def test_sixty_five_dimensions_are_refused(expression: str) -> None:
    x = pellucid.ones((1,) * 64)
    with pytest.raises((RuntimeError, IndexError, ValueError), match=r"dim"):
        eval(expression, {"torch": pellucid, "x": x})


def test_eighteen_dimensions_of_two() -> None:
    x = pellucid.ones((2,) * 18, requires_grad=True)
    x.sum(tuple(range(0, 18, 2))).prod().backward()
    assert tuple(x.grad.shape) == (2,) * 18


# --- more elements than a 32-bit integer counts


@pytest.mark.slow
def test_more_than_two_to_the_31_elements() -> None:
    count = 2**31 + 8
    x = pellucid.zeros(count, dtype=pellucid.int8)
    x[-1] = 1
    assert x.numel() == count
    assert x[-2:].tolist() == [0, 1]
    assert x.argmax().item() == count - 1
    assert x.nonzero().tolist() == [[count - 1]]
    assert x.view(8, -1)[7, -1].item() == 1


def test_there_are_enough_cases() -> None:
    assert len(SMALL) * len(SHAPES) + len(CREATED) + len(DERIVED) + len(NEGATIVE) >= 300


@pytest.mark.parametrize("dtype", [pellucid.float32, pellucid.float64, pellucid.complex64, pellucid.float16])
def test_a_view_as_the_same_dtype_is_a_view_with_its_derivative(dtype):
    """PyTorch hands out a tensor without history there, and loses writes to it without a word (docs/port.md)."""
    x = pellucid.ones(4, dtype=dtype, requires_grad=True)
    z = x * 2
    y = z.view(dtype)
    assert y.requires_grad and y._base is z
    y.mul_(3)
    (z.sum().real if dtype.is_complex else z.sum()).backward()
    assert z.tolist() == [6] * 4 and x.grad.tolist() == [6] * 4
    if not dtype.is_complex:
        assert pellucid.func.grad(lambda x: (x.view(dtype) * 2).sum())(x.detach()).tolist() == [2] * 4
    one = pellucid.ones(4, dtype=dtype)
    assert pellucid.func.jvp(lambda x: x.view(dtype) * 2, (one,), (one,))[1].tolist() == [2] * 4


def test_a_view_of_the_bits_has_no_derivative():
    x = pellucid.ones(4, requires_grad=True)
    assert not any(
        (x * 2).view(dtype).requires_grad for dtype in (pellucid.int32, pellucid.float64, pellucid.complex64)
    )
