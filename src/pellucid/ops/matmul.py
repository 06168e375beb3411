"""Matrix products: everything that ends in BLAS.

Each form has its own row, so that the graph names it as PyTorch does: `mm` (matrix, matrix), `mv`, `dot`, `bmm`, and
`matmul` for stacks of matrices that broadcast. `matmul` (and `@`) looks at the ranks and picks one. The rows call
`np.dot` where both are matrices (0.4 µs faster than `np.matmul`); transposes are views, which BLAS reads as they are.
A stack times one matrix, the usual case in networks, is one large product instead of many small ones.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core import modes
from pellucid.core.careful import as_tensor, by_operator
from pellucid.core.primitive import multilinear
from pellucid.core.record import F32, F64, bind
from pellucid.core.tensor import Tensor
from pellucid.ops.arguments import Row, Shape, expect, refusal
from pellucid.ops.axes import permute_row
from pellucid.ops.gemm import gemm, stacked
from pellucid.ops.operation import Draw, Sample, call, operation, publish
from pellucid.ops.reduce import sum_row
from pellucid.ops.shape import aligned, reshape_row

FLOATS = (F32, F64)


# --- small pieces that rules are made of


def swap(a: Any) -> Any:
    """The last two axes exchanged: a view."""
    n = a.ndim
    axes = (1, 0) if n == 2 else (*range(n - 2), n - 1, n - 2)
    return a.transpose(axes) if type(a) is np.ndarray else permute_row(a, axes)


def rows_of(a: Any) -> Any:
    """All leading axes as one: a matrix whose rows are the vectors along the last axis."""
    if a.ndim == 2:
        return a
    shape = (prod(a.shape[:-1]), a.shape[-1])
    return a.reshape(shape) if type(a) is np.ndarray else reshape_row(a, shape)  # the row takes 0.5 µs more


def column(a: Any) -> Any:
    """A vector as a matrix of one column."""
    return reshape_row(a, (a.shape[0], 1))


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


# --- the rows


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A stack of matrices times one matrix is one product of all rows, which beats a loop of small ones."""
    if b.ndim > 2:
        return stacked(a, b) if a.ndim == b.ndim else np.matmul(a, b)  # type: ignore[no-any-return]
    if a.ndim == 2:
        return gemm(a, b)
    leading = a.shape[:-1]
    return gemm(a.reshape(prod(leading), a.shape[-1]), b).reshape(*leading, b.shape[1])


def _second_factor(g: Any, a: Any, b_shape: Shape) -> Any:
    """The gradient of b in a @ b; a b that served a whole stack gets it summed, by one product over all rows."""
    return mm_row(swap(rows_of(a)), rows_of(g)) if len(b_shape) == 2 else matmul_row(swap(a), g)


def shared(stack: Any) -> Any:
    """The array that a stack repeats for every sample (strides of 0 tell), None if it has one for each.

    >>> shared(np.broadcast_to(np.ones(2), (3, 2))), shared(np.ones((3, 2)))
    (array([1., 1.]), None)
    """
    repeats = isinstance(stack, np.ndarray) and len(stack) and not stack.strides[0]
    return stack[0] if repeats else None


def matmul_batched(op: Any, a: Any, b: Any) -> Any:
    """The batching of matmul: one matrix per sample serves a whole stack by one product of all rows."""
    matrix = shared(b)
    if matrix is not None and matrix.ndim == 2 and a.ndim > 2:
        return op(a, matrix)
    if b.ndim == 3 and a.ndim > 3:
        batch, leading = a.shape[0], a.shape[1:-1]
        flat = op(reshape_row(a, (batch, prod(leading), a.shape[-1])), b)
        return reshape_row(flat, (batch, *leading, b.shape[-1]))
    rank = max(a.ndim, b.ndim) - 1
    return op(aligned(a, rank), aligned(b, rank))


mm_row = bind(
    multilinear(
        "mm", gemm, lambda g, b: mm_row(g, swap(b)), lambda g, a: mm_row(swap(a), g),
        dtypes="equal", lower="gemm", hint=product_hint, batch=lambda op, a, b: matmul_batched(matmul_row, a, b),
    )
)  # fmt: skip
matmul_row = bind(
    multilinear(
        "matmul", product, lambda g, b: matmul_row(g, swap(b)), _second_factor,
        dtypes="equal", lower="gemm", hint=product_hint, batch=matmul_batched, grad_name="UnsafeViewBackward0",
    )
)  # fmt: skip
bmm_row = bind(
    multilinear(
        "bmm", stacked, lambda g, b: bmm_row(g, swap(b)), lambda g, a: bmm_row(swap(a), g),
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
    """A stack of matrices times a stack of vectors, pair by pair; one matrix for all of them at once."""
    matrix = shared(a)
    if matrix is not None:
        return matmul_row(b, swap(matrix))
    return reshape_row(matmul_row(a, reshape_row(b, (*b.shape, 1))), tuple(a.shape[:-1]))


def dotting(name: str) -> Row:
    """A row (a, b) of two vectors: the sum of the products of their elements."""
    return bind(
        multilinear(
            name, np.dot, lambda g, b: g * b, lambda g, a: g * a,
            dtypes="equal", hint=product_hint, batch=lambda op, a, b: sum_row(a * b, (1,), False),
        )
    )  # fmt: skip


dot_row = dotting("dot")
vdot_row = dotting("vdot")  # of real vectors: the same, under PyTorch's other name


# --- what the public functions ask of their arguments


def tensors(name: str, *values: Any) -> tuple[Any, ...]:
    """The arguments of a product, refused when one is a number or of another dtype than the first."""
    for position, value in enumerate(values):
        if not isinstance(value, Tensor) and not isinstance(value, np.ndarray):
            label = ("input", "other", "bias")[min(position, 2)]
            text = f"{name}(): argument '{label}' (position {position + 1}) must be Tensor, not {type(value).__name__}"
            raise refusal(TypeError, text, try_="use * to multiply by a number")
    found = tuple(as_tensor(value) for value in values)
    kinds = [np.dtype(tensor.array.dtype) for tensor in found]
    if any(kind != kinds[0] for kind in kinds) and modes.current().autocast is None:
        names = [dtypes.scalar_name(dtypes.from_numpy_dtype(kind)) for kind in kinds]
        what = f"{name}: expected m1 and m2 to have the same dtype, but got: {' != '.join(names)}"
        if name in ("dot", "vdot") or (name == "matmul" and all(tensor.ndim == 1 for tensor in found)):
            what = f"dot : expected both vectors to have same dtype, but found {' and '.join(names)}"
        elif name == "linear":
            shown = names[:2] if names[0] != names[1] else names
            what = f"linear: mat1 and mat2 must have the same dtype, but got {' and '.join(shown)}"
        way = "x.float(), or model.double() for all parameters" if name == "linear" else "b.to(a.dtype)"
        raise refusal(RuntimeError, what, try_=f"convert one of them, e.g. {way}")
    if kinds[0].kind == "b":
        raise refusal(
            NotImplementedError, f"{name}: \"addmm_impl_cpu_\" not implemented for 'Bool'", try_="a.int() @ b.int()"
        )
    return found


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
            if by_operator():
                return NotImplemented
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
            raise refusal(RuntimeError, f"matmul: {why}", try_=try_)
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
        call(draw(1, 1), draw(1, 1)), call(draw.complex(2, 3), draw.complex(3, 2)), call(draw(3, 2).mT, draw(3, 4)),
        call(draw(2, 3), draw(4, 3).mT), call(draw(1, 3), draw(3, 1)), call(draw(3, 1), draw(1, 3)),
        call(draw(3, 3), draw(3, 3)),
    ],
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


@operation(
    samples=lambda draw: [
        call(draw(2, 3, 4), draw(2, 4, 5)), call(draw(0, 3, 4), draw(0, 4, 5)), call(draw(2, 3, 0), draw(2, 0, 5)),
        call(draw(1, 1, 1), draw(1, 1, 1)), call(draw(2, 4, 3).mT, draw(2, 4, 5)),
        call(draw(2, 3, 4), draw(2, 5, 4).mT), call(draw.complex(2, 2, 2), draw.complex(2, 2, 1)),
        call(draw(3, 1, 2), draw(3, 2, 1)), call(draw(2, 0, 3), draw(2, 3, 1)), call(draw(1, 2, 3), draw(1, 3, 2)),
    ],
)  # fmt: skip
def bmm(input: Any, mat2: Any) -> Any:
    """Products of two stacks of matrices, pair by pair.

    >>> import pellucid as torch
    >>> torch.bmm(torch.ones(2, 1, 3), torch.ones(2, 3, 1)).shape
    torch.Size([2, 1, 1])
    """
    input, mat2 = tensors("bmm", input, mat2)
    expect_stacks("bmm", input, mat2)
    return bmm_row(input, mat2)


def expect_stacks(name: str, batch1: Any, batch2: Any) -> None:
    """Refuse what is no pair of stacks of matrices that fit."""
    expect(batch1.ndim == 3, f"{name}: batch1 must be a 3D tensor")
    expect(batch2.ndim == 3, f"{name}: batch2 must be a 3D tensor")
    wanted, found = [batch1.shape[0], batch1.shape[2]], list(batch2.shape[:2])
    expect(
        wanted == found,
        f"{name}: Expected size for first two dimensions of batch2 tensor to be: {wanted} but got: {found}.",
    )


@operation(
    samples=lambda draw: [
        call(draw(2, 3), draw(3)), call(draw(0, 3), draw(3)), call(draw(2, 0), draw(0)), call(draw(1, 1), draw(1)),
        call(draw(3, 2).mT, draw(3)), call(draw(1, 4), draw(4)), call(draw(4, 1), draw(1)),
        call(draw.complex(2, 3), draw.complex(3)), call(draw(3, 3), draw(3)), call(draw(0, 0), draw(0)),
    ],
)  # fmt: skip
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


def _vector_samples(draw: Draw) -> list[Sample]:
    return [
        call(draw(3), draw(3)), call(draw(0), draw(0)), call(draw(1), draw(1)),
        call(draw.complex(3), draw.complex(3)), call(draw(5), draw(5)), call(draw(8), draw(8)),
        call(draw.complex(1), draw.complex(1)), call(draw.integers(4), draw.integers(4)), call(draw(2), draw(2)),
        call(draw.complex(0), draw.complex(0)),
    ]  # fmt: skip


@operation(samples=_vector_samples)
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


@operation(samples=_vector_samples)
def vdot(input: Any, other: Any) -> Any:
    """Dot product that conjugates its first argument.

    >>> import pellucid as torch
    >>> torch.vdot(torch.tensor([1j, 2]), torch.tensor([1j, 2]))
    tensor(5.+0.j)
    """
    input, other = _vectors("vdot", input, other)
    return dot_row(input.conj(), other) if input.dtype.is_complex else vdot_row(input, other)
