"""Matrix products: everything that ends in BLAS.

Each form has its own row, so that the graph names it as PyTorch does: `mm` (matrix, matrix), `mv`, `dot`, `bmm`, and
`matmul` for stacks of matrices that broadcast. `matmul` (and `@`) looks at the ranks and picks one. The rows call
`np.dot` where both are matrices (0.4 µs faster than `np.matmul`); transposes are views, which BLAS reads as they are.
A stack times one matrix, the usual case in networks, is one large product instead of many small ones.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core.careful import as_tensor
from pellucid.core.primitive import add_up, general, multilinear, same, stretch
from pellucid.core.provenance import here
from pellucid.core.record import F32, F64, bind
from pellucid.core.tensor import Tensor
from pellucid.errors import explain
from pellucid.ops.operation import call, operation, publish
from pellucid.ops.reduce import sum_row
from pellucid.ops.shape import expand_row, permute_row, reshape_row, slice_row, unslice_row

Shape = tuple[int, ...]
FLOATS = (F32, F64)


# --- small pieces that rules are made of


def swap(a: Any) -> Any:
    """The last two axes exchanged: a view."""
    n = a.ndim
    return permute_row(a, (1, 0) if n == 2 else (*range(n - 2), n - 1, n - 2))


def rows_of(a: Any) -> Any:
    """All leading axes as one: a matrix whose rows are the vectors along the last axis."""
    return a if a.ndim == 2 else reshape_row(a, (prod(a.shape[:-1]), a.shape[-1]))


def column(a: Any) -> Any:
    """A vector as a matrix of one column."""
    return reshape_row(a, (a.shape[0], 1))


def scaled(a: Any, factor: Any) -> Any:
    """`a` times a number, without the work when the number is 1."""
    return a if factor == 1 else a * factor


def aligned(a: Any, rank: int) -> Any:
    """For a batched array: axes of size 1 behind the batch axis, so that `rank` axes follow it."""
    missing = rank + 1 - a.ndim
    return a if missing <= 0 else reshape_row(a, (a.shape[0], *(1,) * missing, *a.shape[1:]))


# --- why shapes do not fit


def sizes(shape: Shape) -> str:
    """A shape as PyTorch writes it in this error.

    >>> sizes((2, 3))
    '2x3'
    """
    return "x".join(map(str, shape))


def product_hint(shapes: Sequence[Shape], params: Any = ()) -> tuple[str | None, str | None]:
    """Why two matrices cannot be multiplied, and whether a transpose would help.

    >>> product_hint([(2, 3), (4, 3)])
    ('mat1 and mat2 shapes cannot be multiplied (2x3 and 4x3)', 'transpose the second one: a @ b.mT')
    """
    first, second = shapes[-2], shapes[-1]
    if len(first) < 2 or len(second) < 2:
        return vector_hint(first, second)
    if first[-1] == second[-2]:
        why = f"the batch dimensions {first[:-2]} and {second[:-2]} do not broadcast"
        return f"The size of tensor a must match the size of tensor b: {why}", "expand or unsqueeze one of them"
    if len(first) == len(second) == 3 and first[0] == second[0]:
        wanted = [first[0], first[2]]
        why = f"Expected size for first two dimensions of batch2 tensor to be: {wanted} but got: {list(second[:2])}"
    else:
        flat = (prod(first[:-1]), first[-1])
        why = f"mat1 and mat2 shapes cannot be multiplied ({sizes(flat)} and {sizes(second[-2:])})"
    return why, transpose_advice(first, second)


def transpose_advice(first: Shape, second: Shape) -> str:
    """Which transpose makes the inner sizes equal, if one does."""
    if first[-1] == second[-1]:
        return "transpose the second one: a @ b.mT"
    if first[-2] == second[-2]:
        return "transpose the first one: a.mT @ b"
    if first[-2] == second[-1]:
        return "exchange them: b @ a"
    return "the last size of the first must equal the last but one of the second"


def vector_hint(first: Shape, second: Shape) -> tuple[str | None, str | None]:
    """Why a vector does not fit."""
    if len(first) == len(second) == 1:
        why = f"inconsistent tensor size, expected tensor [{first[0]}] and src [{second[0]}] to have the same number"
        return f"{why} of elements, but got {first[0]} and {second[0]} elements respectively", None
    if len(second) == 1:
        why = f"size mismatch, got input ({first[0]}), mat ({sizes(first)}), vec ({second[0]})"
        return why, "transpose the matrix: a.mT @ v" if first[0] == second[0] else None
    return f"mat1 and mat2 shapes cannot be multiplied (1x{first[0]} and {sizes(second)})", None


def linear_hint(shapes: Sequence[Shape], params: Any = ()) -> tuple[str | None, str | None]:
    """Why an input does not fit the weight of a linear layer, or the bias does not."""
    x, weight = shapes[0], shapes[1]
    if x[-1] == weight[1]:
        return f"the bias has size {shapes[2]}, the layer has {weight[0]} outputs", None
    flat = (prod(x[:-1]), x[-1])
    why = f"mat1 and mat2 shapes cannot be multiplied ({sizes(flat)} and {sizes(weight[::-1])})"
    try_ = f"the weight of shape {weight} takes inputs whose last size is {weight[1]}"
    return why, try_ + (": pass weight.mT" if x[-1] == weight[0] else "")


# --- the rows


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A stack of matrices times one matrix is one product of all rows, which beats a loop of small ones."""
    if b.ndim > 2:
        return np.matmul(a, b)
    if a.ndim == 2:
        return np.dot(a, b)
    leading = a.shape[:-1]
    return np.dot(a.reshape(prod(leading), a.shape[-1]), b).reshape(*leading, b.shape[1])


def _second_factor(g: Any, a: Any, b_shape: Shape) -> Any:
    """The gradient of b in a @ b; a b that served a whole stack gets it summed, by one product over all rows."""
    return mm_row(swap(rows_of(a)), rows_of(g)) if len(b_shape) == 2 else matmul_row(swap(a), g)


def _batch_matmul(op: Any, a: Any, b: Any) -> Any:
    if b.ndim == 3 and a.ndim > 3:
        batch, leading = a.shape[0], a.shape[1:-1]
        flat = op(reshape_row(a, (batch, prod(leading), a.shape[-1])), b)
        return reshape_row(flat, (batch, *leading, b.shape[-1]))
    rank = max(a.ndim, b.ndim) - 1
    return op(aligned(a, rank), aligned(b, rank))


mm_row = bind(
    multilinear(
        "mm", np.dot, lambda g, b: mm_row(g, swap(b)), lambda g, a: mm_row(swap(a), g),
        dtypes="equal", lower="gemm", hint=product_hint, batch=lambda op, a, b: matmul_row(a, b),
    )
)  # fmt: skip
matmul_row = bind(
    multilinear(
        "matmul", _product, lambda g, b: matmul_row(g, swap(b)), _second_factor,
        dtypes="equal", lower="gemm", hint=product_hint, batch=_batch_matmul, grad_name="UnsafeViewBackward0",
    )
)  # fmt: skip
bmm_row = bind(
    multilinear(
        "bmm", np.matmul, lambda g, b: bmm_row(g, swap(b)), lambda g, a: bmm_row(swap(a), g),
        dtypes="equal", lower="gemm", hint=product_hint, batch=lambda op, a, b: matmul_row(a, b),
    )
)  # fmt: skip
mv_row = bind(
    multilinear(
        "mv", np.dot, lambda g, b: column(g) * b, lambda g, a: mv_row(swap(a), g),
        dtypes="equal", hint=product_hint,
        batch=lambda op, a, b: mv_batched(a, b),
    )
)  # fmt: skip


def mv_batched(a: Any, b: Any) -> Any:
    """A stack of matrices times a stack of vectors, pair by pair."""
    return reshape_row(matmul_row(a, reshape_row(b, (*b.shape, 1))), tuple(a.shape[:-1]))


def _batch_dot(op: Any, a: Any, b: Any) -> Any:
    return sum_row(a * b, (1,), False)


dot_row = bind(
    multilinear(
        "dot", np.dot, lambda g, b: g * b, lambda g, a: g * a,
        dtypes="equal", hint=product_hint, batch=_batch_dot,
    )
)  # fmt: skip
vdot_row = bind(  # of real vectors: the same as dot, under PyTorch's other name
    multilinear(
        "vdot", np.dot, lambda g, b: g * b, lambda g, a: g * a,
        dtypes="equal", hint=product_hint, batch=_batch_dot,
    )
)  # fmt: skip


# --- what the public functions ask of their arguments


def tensors(name: str, *values: Any) -> tuple[Any, ...]:
    """The arguments of a product, refused when one is a number or of another dtype than the first."""
    for position, value in enumerate(values):
        if not isinstance(value, Tensor) and not isinstance(value, np.ndarray):
            text = f"{name}(): argument (position {position + 1}) must be Tensor, not {type(value).__name__}"
            raise TypeError(explain(text, str(here()), try_="use * to multiply by a number"))
    found = tuple(as_tensor(value) for value in values)
    kinds = [np.dtype(tensor.array.dtype) for tensor in found]
    if any(kind != kinds[0] for kind in kinds):
        names = " != ".join(str(dtypes.from_numpy_dtype(kind)) for kind in kinds)
        what = f"{name}: expected m1 and m2 to have the same dtype, but got: {names}"
        raise RuntimeError(explain(what, str(here()), try_="convert one of them, e.g. b.to(a.dtype)"))
    if kinds[0].kind == "b":
        raise NotImplementedError(
            explain(f"{name}: \"addmm_impl_cpu_\" not implemented for 'Bool'", str(here()), try_="a.int() @ b.int()")
        )
    return found


def expect(fits: bool, what: str) -> None:
    """Raise PyTorch's error for arguments of the wrong rank or size."""
    if not fits:
        raise RuntimeError(explain(what, str(here())))


# --- matmul and its special cases


def matmul(input: Any, other: Any) -> Any:
    """Matrix product of two tensors: vectors, matrices, or stacks of matrices that broadcast; also `a @ b`.

    >>> import pellucid as torch
    >>> torch.tensor([[1.0, 2.0], [3.0, 4.0]]) @ torch.tensor([1.0, 10.0])
    tensor([21., 43.])
    """
    if isinstance(input, Tensor) and isinstance(other, Tensor):
        a, b = input.array, other.array
        if a.dtype is not b.dtype or a.dtype not in FLOATS:
            tensors("matmul", input, other)
        ranks = a.ndim, b.ndim
    else:
        if not (hasattr(input, "ndim") and hasattr(other, "ndim")):
            tensors("matmul", input, other)  # says which one is no tensor
        ranks = input.ndim, other.ndim
    if ranks == (2, 2):
        return mm_row(input, other)
    if ranks[0] > 1 and ranks[1] > 1:
        return matmul_row(input, other)
    return _with_vector(input, other, *ranks)


def _with_vector(input: Any, other: Any, n: int, m: int) -> Any:
    """A product in which one factor, or both, is a vector."""
    expect(n > 0 and m > 0, f"both arguments to matmul need to be at least 1D, but they are {n}D and {m}D")
    if n == m == 1:
        return dot_row(input, other)
    if n == 2:
        return mv_row(input, other)
    if m == 2:
        if input.shape[0] != other.shape[0]:  # said here: the transposed product would name other shapes
            why, try_ = product_hint([tuple(input.shape), tuple(other.shape)])
            raise RuntimeError(explain(f"matmul: {why}", str(here()), None, try_))
        return mv_row(swap(other), input)
    if m == 1:
        return reshape_row(matmul_row(input, column(other)), tuple(input.shape[:-1]))
    product = matmul_row(reshape_row(input, (1, input.shape[0])), other)
    return reshape_row(product, (*other.shape[:-2], other.shape[-1]))


def _matmul_samples(draw: Any) -> list[Any]:
    shapes = [
        ((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,)), ((2, 3), (3, 4)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)),
        ((3, 4), (2, 4, 5)), ((2, 1, 3, 4), (5, 4, 2)), ((1, 2, 3), (4, 3, 2)), ((2, 3, 4), (4,)), ((4,), (2, 4, 3)),
        ((0, 3), (3, 2)), ((2, 0), (0, 3)), ((0,), (0,)), ((2, 0, 3), (3, 2)), ((2, 3, 0), (0, 2)), ((1, 1), (1, 1)),
    ]  # fmt: skip
    return [call(draw(*first), draw(*second)) for first, second in shapes]


publish(matmul, samples=_matmul_samples, methods=("matmul", "__matmul__"))


@operation(
    samples=lambda draw: [
        call(draw(2, 3), draw(3, 4)), call(draw(0, 3), draw(3, 2)), call(draw(2, 0), draw(0, 2)),
        call(draw(1, 1), draw(1, 1)), call(draw.complex(2, 3), draw.complex(3, 2)),
    ]
)  # fmt: skip
def mm(input: Any, mat2: Any) -> Any:
    """Product of two matrices.

    >>> import pellucid as torch
    >>> torch.mm(torch.ones(2, 3), torch.ones(3, 1))
    tensor([[3.],
            [3.]])
    """
    input, mat2 = tensors("mm", input, mat2)
    expect(input.ndim == 2, "mm: self must be a matrix")
    expect(mat2.ndim == 2, "mm: mat2 must be a matrix")
    return mm_row(input, mat2)


@operation(samples=lambda draw: [call(draw(2, 3, 4), draw(2, 4, 5)), call(draw(0, 3, 4), draw(0, 4, 5)),
                                 call(draw(2, 3, 0), draw(2, 0, 5)), call(draw(1, 1, 1), draw(1, 1, 1))])  # fmt: skip
def bmm(input: Any, mat2: Any) -> Any:
    """Products of two stacks of matrices, pair by pair.

    >>> import pellucid as torch
    >>> torch.bmm(torch.ones(2, 1, 3), torch.ones(2, 3, 1)).shape
    torch.Size([2, 1, 1])
    """
    input, mat2 = tensors("bmm", input, mat2)
    _expect_stacks("bmm", input, mat2)
    return bmm_row(input, mat2)


def _expect_stacks(name: str, batch1: Any, batch2: Any) -> None:
    expect(batch1.ndim == 3, f"{name}: batch1 must be a 3D tensor")
    expect(batch2.ndim == 3, f"{name}: batch2 must be a 3D tensor")
    wanted, found = [batch1.shape[0], batch1.shape[2]], list(batch2.shape[:2])
    expect(
        wanted == found,
        f"{name}: Expected size for first two dimensions of batch2 tensor to be: {wanted} but got: {found}.",
    )


@operation(samples=lambda draw: [call(draw(2, 3), draw(3)), call(draw(0, 3), draw(3)), call(draw(2, 0), draw(0))])
def mv(input: Any, vec: Any) -> Any:
    """Matrix times vector.

    >>> import pellucid as torch
    >>> torch.mv(torch.ones(2, 3), torch.ones(3))
    tensor([3., 3.])
    """
    input, vec = tensors("mv", input, vec)
    expect(
        input.ndim == 2 and vec.ndim == 1,
        f"mv: vector + matrix @ vector expected, got 1, {input.ndim}, {vec.ndim}",
    )
    return mv_row(input, vec)


@operation(samples=lambda draw: [call(draw(3), draw(3)), call(draw(0), draw(0)), call(draw(1), draw(1)),
                                 call(draw.complex(3), draw.complex(3))])  # fmt: skip
def dot(input: Any, tensor: Any) -> Any:
    """Sum of the products of two vectors' elements.

    >>> import pellucid as torch
    >>> torch.dot(torch.tensor([1.0, 2.0]), torch.tensor([10.0, 1.0]))
    tensor(12.)
    """
    input, tensor = _vectors("dot", input, tensor)
    return dot_row(input, tensor)


def _vectors(name: str, input: Any, other: Any) -> tuple[Any, ...]:
    input, other = tensors(name, input, other)
    expect(
        input.ndim == other.ndim == 1,
        f"{name}: 1D tensors expected, but got {input.ndim}D and {other.ndim}D tensors",
    )
    return input, other


@operation(
    samples=lambda draw: [call(draw(3), draw(3)), call(draw.complex(3), draw.complex(3)), call(draw(0), draw(0))]
)
def vdot(input: Any, other: Any) -> Any:
    """Dot product that conjugates its first argument.

    >>> import pellucid as torch
    >>> torch.vdot(torch.tensor([1j, 2]), torch.tensor([1j, 2]))
    tensor(5.+0.j)
    """
    input, other = _vectors("vdot", input, other)
    return dot_row(input.conj(), other) if input.dtype.is_complex else vdot_row(input, other)


@operation(
    samples=lambda draw: [call(draw(2), draw(3)), call(draw(0), draw(3)), call(draw(1), draw(1))], aliases=("ger",)
)
def outer(input: Any, vec2: Any) -> Any:
    """Every element of one vector times every element of another.

    >>> import pellucid as torch
    >>> torch.outer(torch.tensor([1, 2]), torch.tensor([1, 10]))
    tensor([[ 1, 10],
            [ 2, 20]])
    """
    for name, vector in (("self", input), ("vec2", vec2)):
        expect(vector.ndim == 1, f"outer: Expected 1-D argument {name}, but got {vector.ndim}-D")
    return column(input) * vec2


@operation(samples=lambda draw: [call(draw(3), draw(3)), call(draw(2, 3), draw(4, 3)), call(draw(2, 3), draw(3)),
                                 call(draw(), draw(2, 3)), call(draw(2, 1, 3), draw(2, 3))])  # fmt: skip
def inner(input: Any, other: Any) -> Any:
    """Sums of products along the last dimension of both.

    >>> import pellucid as torch
    >>> torch.inner(torch.ones(2, 3), torch.ones(3))
    tensor([3., 3.])
    """
    if not input.ndim or not other.ndim:
        return input * other
    expect(input.dtype is other.dtype, "inner: both inputs should have same dtype")
    shapes = f"{list(input.shape)} and {list(other.shape)}"
    expect(
        input.shape[-1] == other.shape[-1],
        f"inner() the last dimension must match on both input tensors but got shapes {shapes}",
    )
    return dot_row(input, other) if input.ndim == other.ndim == 1 else tensordot(input, other, ([-1], [-1]))


# --- a product added to something: beta * input + alpha * (one @ two)


def _affine(product: Callable[..., Any]) -> Callable[..., Any]:
    def forward(a: np.ndarray, b: np.ndarray, c: np.ndarray, beta: Any, alpha: Any) -> np.ndarray:
        y = np.asarray(product(b, c))
        number = y.dtype.type  # a factor counts in the dtype of the tensors, so 0.5 is 0 for integers
        if alpha != 1:
            y *= number(alpha)
        if beta != 0:  # PyTorch promises not to look at the input then: NaN in it does not spread
            y += a if beta == 1 else a * number(beta)
        return y

    return forward


def _affine_row(name: str, product: Callable[..., Any], forward: Callable[..., Any], first: Any, second: Any) -> Any:
    """The row of an affine operation, given the product and the gradients of its factors."""
    rank = {"addmv": 1, "baddbmm": 3}.get(name, 2)

    def jvp(tangents: Sequence[Any], y: Any, inputs: Sequence[Any], params: tuple[Any, ...]) -> Any:
        (t, t1, t2), (_, one, two), (beta, alpha) = tangents, inputs, params
        terms = [None if t is None else stretch(scaled(t, beta), y)]
        terms.append(None if t1 is None else scaled(product(t1, two), alpha))
        terms.append(None if t2 is None else scaled(product(one, t2), alpha))
        return add_up(term for term in terms if term is not None)

    return bind(
        general(
            name, _affine(forward),
            lambda g, beta, alpha: scaled(g, beta),
            lambda g, c, beta, alpha: scaled(first(g, c), alpha),
            lambda g, b, beta, alpha: scaled(second(g, b), alpha),
            jvp=jvp, dtypes="equal", hint=_affine_hint,
            batch=lambda op, a, b, c, beta, alpha: scaled(aligned(a, rank), beta)
            + scaled(BATCHED[name](b, c), alpha),
        )
    )  # fmt: skip


def _affine_hint(shapes: Sequence[Shape], params: Any) -> tuple[str | None, str | None]:
    first, second = shapes[1], shapes[2]
    if len(first) > 1 and first[-1] != second[-2 if len(second) > 1 else 0]:
        return product_hint(shapes)
    return f"an input of shape {shapes[0]} cannot be expanded to the shape of the product", None


def _outer(a: Any, b: Any) -> Any:
    return column(a) * b


def _total(b: Any, c: Any) -> Any:
    return sum_row(bmm_row(b, c), (0,), False)


# The products of the affine rows with a batch axis in front of both factors.
BATCHED: dict[str, Callable[..., Any]] = {
    "addmm": lambda b, c: matmul_row(b, c),
    "baddbmm": lambda b, c: matmul_row(b, c),
    "addbmm": lambda b, c: sum_row(matmul_row(b, c), (1,), False),
    "addmv": lambda b, c: mv_batched(b, c),
    "addr": lambda b, c: reshape_row(b, (*b.shape, 1)) * reshape_row(c, (c.shape[0], 1, c.shape[1])),
}

addmm_row = _affine_row(
    "addmm", mm_row, np.dot, lambda g, c: mm_row(g, swap(c)), lambda g, b: mm_row(swap(b), g)
)
addmv_row = _affine_row("addmv", mv_row, np.dot, lambda g, c: column(g) * c, lambda g, b: mv_row(swap(b), g))
addr_row = _affine_row(
    "addr", _outer, np.multiply.outer, lambda g, c: mv_row(g, c), lambda g, b: mv_row(swap(g), b)
)
baddbmm_row = _affine_row(
    "baddbmm", bmm_row, np.matmul, lambda g, c: bmm_row(g, swap(c)), lambda g, b: bmm_row(swap(b), g)
)
addbmm_row = _affine_row(
    "addbmm", _total, lambda b, c: np.add.reduce(np.matmul(b, c), axis=0),
    lambda g, c: matmul_row(g, swap(c)), lambda g, b: matmul_row(swap(b), g),
)  # fmt: skip


def _affine_samples(shape: Shape, first: Shape, second: Shape) -> Callable[..., list[Any]]:
    return lambda draw: [
        call(draw(*shape), draw(*first), draw(*second)),
        call(draw(*shape), draw(*first), draw(*second), beta=0.5, alpha=-2.0),
        call(draw(1), draw(*first), draw(*second), alpha=3),
        call(draw(), draw(*first), draw(*second)),
        call(draw(shape[-1]), draw(*first), draw(*second), beta=2),
    ]


@operation(samples=_affine_samples((2, 4), (2, 3), (3, 4)), inplace=True)
def addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """`beta * input + alpha * (mat1 @ mat2)` in one step.

    >>> import pellucid as torch
    >>> torch.addmm(torch.ones(2), torch.ones(1, 3), torch.ones(3, 2), alpha=10)
    tensor([[31., 31.]])
    """
    input, mat1, mat2 = tensors("addmm", input, mat1, mat2)
    ranks = f"{mat1.ndim}-D and {mat2.ndim}-D tensors"
    expect(mat1.ndim == 2 and mat2.ndim == 2, f"addmm: mat1 and mat2 must be matrices, got {ranks}")
    return addmm_row(input, mat1, mat2, beta, alpha)


@operation(samples=_affine_samples((2,), (2, 3), (3,)), inplace=True)
def addmv(input: Any, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """`beta * input + alpha * (mat @ vec)` in one step.

    >>> import pellucid as torch
    >>> torch.addmv(torch.ones(2), torch.ones(2, 3), torch.ones(3))
    tensor([4., 4.])
    """
    input, mat, vec = tensors("addmv", input, mat, vec)
    expect(
        mat.ndim == 2 and vec.ndim == 1,
        f"addmv: vector + matrix @ vector expected, got {input.ndim}, {mat.ndim}, {vec.ndim}",
    )
    return addmv_row(input, mat, vec, beta, alpha)


@operation(samples=_affine_samples((2, 3), (2,), (3,)), inplace=True)
def addr(input: Any, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """`beta * input + alpha * outer(vec1, vec2)` in one step.

    >>> import pellucid as torch
    >>> torch.addr(torch.ones(1, 2), torch.ones(1), torch.ones(2))
    tensor([[2., 2.]])
    """
    input, vec1, vec2 = tensors("addr", input, vec1, vec2)
    ranks = f"{vec1.ndim}-D and {vec2.ndim}-D"
    expect(vec1.ndim == 1 and vec2.ndim == 1, f"addr: Expected 1-D argument vec1 and vec2, but got {ranks}")
    return addr_row(input, vec1, vec2, beta, alpha)


@operation(samples=_affine_samples((2, 3, 5), (2, 3, 4), (2, 4, 5)), inplace=True)
def baddbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """`beta * input + alpha * bmm(batch1, batch2)` in one step.

    >>> import pellucid as torch
    >>> torch.baddbmm(torch.ones(1), torch.ones(2, 1, 3), torch.ones(2, 3, 1)).shape
    torch.Size([2, 1, 1])
    """
    input, batch1, batch2 = tensors("baddbmm", input, batch1, batch2)
    _expect_stacks("baddbmm", batch1, batch2)
    return baddbmm_row(input, batch1, batch2, beta, alpha)


@operation(samples=_affine_samples((3, 5), (2, 3, 4), (2, 4, 5)), inplace=True)
def addbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """`beta * input + alpha * bmm(batch1, batch2).sum(0)` in one step.

    >>> import pellucid as torch
    >>> torch.addbmm(torch.zeros(1), torch.ones(2, 1, 3), torch.ones(2, 3, 1))
    tensor([[6.]])
    """
    input, batch1, batch2 = tensors("addbmm", input, batch1, batch2)
    _expect_stacks("addbmm", batch1, batch2)
    return addbmm_row(input, batch1, batch2, beta, alpha)


# --- the linear layer


def _linear(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.dot(a, b.T) if a.ndim < 3 else _product(a, b.T)


def _linear_with_bias(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    y = np.dot(a, b.T) if a.ndim < 3 else _product(a, b.T)
    y += c
    return y


def _input_gradient(g: Any, b: Any) -> Any:
    """The gradient of x in x @ W.T, for x of any rank."""
    return matmul(g, b)


def _weight_gradient(g: Any, a: Any) -> Any:
    """The gradient of W in x @ W.T, summed over all leading dimensions by one product."""
    return mm_row(swap(rows_of(g)), rows_of(a))


def _linear_jvp(tangents: Sequence[Any], y: Any, inputs: Sequence[Any], params: tuple[Any, ...]) -> Any:
    (tx, tw, tb), (x, weight, _) = tangents, inputs
    terms = [None if tx is None else linear_row(tx, weight), None if tw is None else linear_row(x, tw)]
    terms.append(None if tb is None else stretch(tb, y))
    return add_up(term for term in terms if term is not None)


def _batch_linear(op: Any, a: Any, b: Any) -> Any:
    if a.ndim == 2:  # each sample is one vector
        return mv_batched(b, a)
    return matmul_row(a, swap(b)) if a.ndim == 3 else _batch_matmul(matmul_row, a, swap(b))


linear_row = bind(
    multilinear(
        "linear", _linear, _input_gradient, _weight_gradient,
        dtypes="equal", lower="gemm", hint=linear_hint, grad_name="MmBackward0", batch=_batch_linear,
    )
)  # fmt: skip
linear_with_bias_row = bind(
    general(
        "linear_with_bias", _linear_with_bias, _input_gradient, _weight_gradient, same,
        jvp=_linear_jvp, dtypes="equal", lower="gemm", hint=linear_hint, grad_name="AddmmBackward0",
        batch=lambda op, a, b, c: _batch_linear(op, a, b) + aligned(c, a.ndim - 1),
    )
)  # fmt: skip


@operation(
    module="torch.nn.functional",
    methods=(),
    samples=lambda draw: [
        call(draw(2, 3), draw(4, 3)), call(draw(2, 3), draw(4, 3), draw(4)), call(draw(5, 2, 3), draw(4, 3), draw(4)),
        call(draw(3), draw(4, 3), draw(4)), call(draw(3), draw(4, 3)), call(draw(0, 3), draw(4, 3), draw(4)),
        call(draw(2, 0), draw(4, 0), draw(4)), call(draw(2, 3), draw(3)), call(draw(2, 5, 2, 3), draw(4, 3)),
        call(draw(2, 3), draw(4, 3), draw(1)),
    ],
)  # fmt: skip
def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """What a linear layer computes: `input @ weight.T + bias`.

    >>> import pellucid as torch
    >>> linear(torch.ones(1, 3), torch.ones(2, 3), torch.tensor([0.0, 1.0]))
    tensor([[3., 4.]])
    """
    x, matrix = input.array, weight.array
    if matrix.ndim != 2 or not x.ndim:
        return _linear_of_vectors(input, weight, bias)
    if x.dtype is not matrix.dtype or not (bias is None or bias.array.dtype is x.dtype):
        tensors("linear", input, weight, *(() if bias is None else (bias,)))
    return linear_row(input, weight) if bias is None else linear_with_bias_row(input, weight, bias)


def _linear_of_vectors(input: Any, weight: Any, bias: Any) -> Any:
    """A weight that is one vector gives one number per input vector."""
    expect(input.ndim > 0, "linear: both arguments to linear need to be at least 1D, but the input is 0D")
    expect(weight.ndim == 1, f"linear: weight must have 1 or 2 dimensions, not {weight.ndim}")
    product = matmul(input, weight)
    return product if bias is None else product + bias


# --- products of other forms


@operation(
    samples=lambda draw: [
        call(draw(2, 3), draw(3, 4), 1), call(draw(2, 3, 4), draw(3, 4, 2)), call(draw(2, 3), draw(4), 0),
        call(draw(2, 3, 4), draw(4, 3, 5), ([1, 2], [1, 0])), call(draw(2, 3), draw(4, 3), dims=([-1], [-1])),
        call(draw(2, 3), draw(2, 3), 2), call(draw(0, 3), draw(3, 2), 1), call(draw(2, 0), draw(0, 2), 1),
    ],
    methods=(),
)  # fmt: skip
def tensordot(a: Any, b: Any, dims: Any = 2) -> Any:
    """Contract some dimensions of two tensors: the last `dims` with the first, or two lists of dimensions.

    >>> import pellucid as torch
    >>> torch.tensordot(torch.ones(2, 3, 4), torch.ones(4, 3, 5), dims=([1, 2], [1, 0])).shape
    torch.Size([2, 5])
    """
    first, second = _contracted(a.ndim, b.ndim, dims)
    expect(len(first) == len(second), "tensordot: both dimension lists should have same length")
    for i, j in zip(first, second, strict=True):
        sizes = f"first has size {a.shape[i]} in dim {i} and second has size {b.shape[j]} in dim {j}"
        expect(a.shape[i] == b.shape[j], f"tensordot: contracted dimensions need to match, but {sizes}")
    free_a = [i for i in range(a.ndim) if i not in first]
    free_b = [i for i in range(b.ndim) if i not in second]
    inside = prod(a.shape[i] for i in first)
    shape_a, shape_b = [a.shape[i] for i in free_a], [b.shape[i] for i in free_b]
    left = reshape_row(permute_row(a, (*free_a, *first)), (prod(shape_a), inside))
    right = reshape_row(permute_row(b, (*second, *free_b)), (inside, prod(shape_b)))
    return reshape_row(matmul(left, right), (*shape_a, *shape_b))


def _contracted(n: int, m: int, dims: Any) -> tuple[list[int], list[int]]:
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        expect(dims >= 0, f"tensordot expects dims >= 0, but got dims={dims}")
        expect(dims <= min(n, m), f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        return list(range(n - dims, n)), list(range(dims))
    first, second = ([dim] if isinstance(dim, int) else dim for dim in dims)
    return [int(dim) % n for dim in first], [int(dim) % m for dim in second]


@operation(samples=lambda draw: [call(draw(2, 3), draw(3, 2)), call(draw(2), draw(3)), call(draw(2, 1, 2), draw(3, 2)),
                                 call(draw(), draw(2)), call(draw(0, 2), draw(2, 2))])  # fmt: skip
def kron(input: Any, other: Any) -> Any:
    """Kronecker product: every element of the first times the whole second.

    >>> import pellucid as torch
    >>> torch.kron(torch.tensor([1, 10]), torch.tensor([1, 2, 3]))
    tensor([ 1,  2,  3, 10, 20, 30])
    """
    for position, value in enumerate((input, other)):
        if not isinstance(value, Tensor):
            raise TypeError(f"kron(): argument (position {position + 1}) must be Tensor, not {type(value).__name__}")
    rank = max(input.ndim, other.ndim)
    first = (1,) * (rank - input.ndim) + tuple(input.shape)
    second = (1,) * (rank - other.ndim) + tuple(other.shape)
    spread = reshape_row(input, tuple(size for n in first for size in (n, 1)))
    product = spread * reshape_row(other, tuple(size for n in second for size in (1, n)))
    return reshape_row(product, tuple(n * m for n, m in zip(first, second, strict=True)))


def _diagonal(shape: Shape) -> tuple[slice]:
    """Where the diagonal of a matrix lies among its elements, written in a row."""
    rows, columns = shape
    count = min(rows, columns)
    return (slice(0, (count - 1) * (columns + 1) + 1 if count else 0, columns + 1),)


def _trace_gradient(g: Any, a_shape: Shape) -> Any:
    ones = expand_row(reshape_row(g, (1,)), (min(a_shape),))
    return reshape_row(unslice_row(ones, (prod(a_shape),), _diagonal(a_shape)), a_shape)


def _batch_trace(op: Any, a: Any) -> Any:
    flat = reshape_row(a, (a.shape[0], prod(a.shape[1:])))
    return sum_row(slice_row(flat, (slice(None), *_diagonal(a.shape[1:]))), (1,), False)


trace_row = bind(
    multilinear(
        "trace", lambda a: np.add.reduce(a.diagonal()), _trace_gradient, dtypes="equal", batch=_batch_trace,
    )
)  # fmt: skip


@operation(samples=lambda draw: [call(draw(*shape)) for shape in ((3, 3), (2, 4), (4, 2), (0, 3), (1, 1))])
def trace(input: Any) -> Any:
    """Sum of the diagonal of a matrix.

    >>> import pellucid as torch
    >>> torch.trace(torch.tensor([[1, 2], [3, 4]]))
    tensor(5)
    """
    expect(input.ndim == 2, f"trace: expected a matrix, but got tensor with dim {input.ndim}")
    return trace_row(input)


def _cross(a: np.ndarray, b: np.ndarray, axis: int) -> np.ndarray:
    one, two = [1, 2, 0], [2, 0, 1]
    return a.take(one, axis) * b.take(two, axis) - a.take(two, axis) * b.take(one, axis)


# The axis counts from the end, so that it is the same for inputs of different rank.
cross_row = bind(
    multilinear(
        "linalg_cross", _cross, lambda g, b, axis: cross_row(b, g, axis), lambda g, a, axis: cross_row(g, a, axis),
        dtypes="promote",
        batch=lambda op, a, b, axis: op(aligned(a, b.ndim - 1), aligned(b, a.ndim - 1), axis),
    )
)  # fmt: skip


@operation(
    samples=lambda draw: [
        call(draw(3), draw(3), 0), call(draw(2, 3), draw(2, 3), dim=1), call(draw(3, 2), draw(3, 2), 0),
        call(draw(4, 3), draw(1, 3), dim=-1), call(draw(0, 3), draw(0, 3), dim=1),
    ]
)  # fmt: skip
def cross(input: Any, other: Any, dim: int | None = None) -> Any:
    """Cross product of vectors of three elements along a dimension (the first of size 3 if none is given).

    >>> import pellucid as torch
    >>> torch.cross(torch.tensor([1, 0, 0]), torch.tensor([0, 1, 0]), dim=0)
    tensor([0, 0, 1])
    """
    expect(input.ndim == other.ndim, "linalg.cross: inputs must have the same number of dimensions.")
    if dim is None:
        dim = next((i for i, n in enumerate(input.shape) if n == 3), None)
        expect(dim is not None, "no dimension of size 3 in input")
    axis = int(dim) % input.ndim - input.ndim  # type: ignore[arg-type]
    both = f"{input.shape[axis]} and {other.shape[axis]}"
    expect(
        input.shape[axis] == other.shape[axis] == 3,
        f"linalg.cross: inputs dimension {dim} must have length 3. Got {both}",
    )
    return cross_row(input, other, axis)


@operation(
    module="torch.linalg",
    methods=(),
    samples=lambda draw: [call([draw(2, 3), draw(3, 4), draw(4, 2)]), call([draw(3), draw(3, 4), draw(4)]),
                          call([draw(2, 3), draw(3, 2)]), call([draw(2, 3), draw(3, 5), draw(5, 1), draw(1, 2)])],
)  # fmt: skip
def multi_dot(tensors: Sequence[Any]) -> Any:
    """Product of several matrices, multiplied in the cheapest order; the first and last may be vectors.

    >>> import pellucid as torch
    >>> torch.linalg.multi_dot([torch.ones(2, 3), torch.ones(3, 4), torch.ones(4)])
    tensor([12., 12.])
    """
    factors = list(tensors)
    expect(len(factors) >= 2, f"multi_dot(): expected at least 2 tensors but got {len(factors)}")
    for i, (one, two) in enumerate(pairwise(factors)):
        shapes = f"tensors {i} and {i + 1} with shapes {list(one.shape)} and {list(two.shape)}"
        fits = one.shape[-1] == two.shape[0 if two.ndim == 1 else -2]
        expect(fits, f"multi_dot(): {shapes} cannot be multiplied")
    lengths = tuple(t.shape[0] if t.ndim > 1 else 1 for t in factors[:1]) + tuple(
        t.shape[-1] if t.ndim > 1 or i == 0 else 1 for i, t in enumerate(factors)
    )
    return _multiplied(factors, 0, len(factors) - 1, lengths)


def _multiplied(factors: Sequence[Any], first: int, last: int, lengths: Shape) -> Any:
    if first == last:
        return factors[first]
    _, cut = _cheapest(first, last, lengths)
    return matmul(_multiplied(factors, first, cut, lengths), _multiplied(factors, cut + 1, last, lengths))


@lru_cache(maxsize=1024)
def _cheapest(first: int, last: int, lengths: Shape) -> tuple[int, int]:
    """The number of multiplications that factors first..last cost, and after which factor to cut them in two."""
    if first == last:
        return 0, first
    return min(
        (_cheapest(first, i, lengths)[0] + _cheapest(i + 1, last, lengths)[0]
         + lengths[first] * lengths[i + 1] * lengths[last + 1], i)
        for i in range(first, last)
    )  # fmt: skip


@operation(methods=(), samples=lambda draw: [call(draw(2, 3), draw(3, 4), draw(4, 2))])
def chain_matmul(*matrices: Any) -> Any:
    """Product of several matrices in the cheapest order; `linalg.multi_dot` is its newer form.

    >>> import pellucid as torch
    >>> torch.chain_matmul(torch.ones(2, 3), torch.ones(3, 1))
    tensor([[3.],
            [3.]])
    """
    return matrices[0] if len(matrices) == 1 else multi_dot(matrices)

