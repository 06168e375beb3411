"""Products with something added: addmm and its kin, and the linear layer.

All compute `beta * input + alpha * (one @ two)` in one row, which keeps the two factors and nothing in between; the
linear layer is the same with a transposed weight. The products themselves come from matmul.py.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core.primitive import add_up, general, multilinear, same, stretch
from pellucid.core.record import bind
from pellucid.core.tensor import Tensor
from pellucid.ops.arguments import Shape, check_multiplier, expect
from pellucid.ops.convert import as_type
from pellucid.ops.gemm import gemm, stacked
from pellucid.ops.matmul import (
    bmm_row,
    column,
    expect_stacks,
    matmul,
    matmul_batched,
    matmul_row,
    mm_row,
    mv_batched,
    mv_row,
    product,
    product_hint,
    rows_of,
    shared,
    sizes,
    swap,
    tensors,
)
from pellucid.ops.operation import call, must_be_tensors, operation
from pellucid.ops.reduce import sum_row
from pellucid.ops.shape import aligned, reshape_row


def scaled(a: Any, factor: Any) -> Any:
    """`a` times a number, without the work when the number is 1."""
    return a if factor == 1 else a * factor


def linear_hint(shapes: Sequence[Shape], params: Any = ()) -> tuple[str | None, str | None]:
    """Why an input does not fit the weight of a linear layer, or the bias does not."""
    x, weight = shapes[0], shapes[1]
    if x[-1] == weight[1]:
        return f"the bias has size {shapes[2]}, the layer has {weight[0]} outputs", None
    flat = (prod(x[:-1]), x[-1])
    why = f"mat1 and mat2 shapes cannot be multiplied ({sizes(flat)} and {sizes(weight[::-1])})"
    try_ = f"the weight of shape {weight} takes inputs whose last size is {weight[1]}"
    return why, try_ + (": pass weight.mT" if x[-1] == weight[0] else "")


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

addmm_row = _affine_row("addmm", mm_row, gemm, lambda g, c: mm_row(g, swap(c)), lambda g, b: mm_row(swap(b), g))
addmv_row = _affine_row("addmv", mv_row, np.dot, lambda g, c: column(g) * c, lambda g, b: mv_row(swap(b), g))
addr_row = _affine_row("addr", _outer, np.multiply.outer, lambda g, c: mv_row(g, c), lambda g, b: mv_row(swap(g), b))
baddbmm_row = _affine_row(
    "baddbmm", bmm_row, stacked, lambda g, c: bmm_row(g, swap(c)), lambda g, b: bmm_row(swap(b), g)
)
addbmm_row = _affine_row(
    "addbmm", _total, lambda b, c: np.add.reduce(np.matmul(b, c), axis=0, dtype=b.dtype),
    lambda g, c: matmul_row(g, swap(c)), lambda g, b: matmul_row(swap(b), g),
)  # fmt: skip


def _affine_samples(shape: Shape, first: Shape, second: Shape) -> Callable[..., list[Any]]:
    return lambda draw: [
        call(draw(*shape), draw(*first), draw(*second)),
        call(draw(*shape), draw(*first), draw(*second), beta=0.5, alpha=-2.0),
        call(draw(1), draw(*first), draw(*second), alpha=3),
        call(draw(), draw(*first), draw(*second)),
        call(draw(shape[-1]), draw(*first), draw(*second), beta=2),
        call(draw(*shape), draw(*first), draw(*second), beta=0),
        call(draw(*shape), draw(*first), draw(*second), alpha=0),
        call(draw(), draw(*first), draw(*second), beta=-1, alpha=0.5),
        call(draw.complex(*shape), draw.complex(*first), draw.complex(*second)),
        call(draw(1), draw(*first), draw(*second), beta=3),
        call(draw(*shape), draw(*first), draw(*second), beta=1.5, alpha=1.5),
    ]


def _once(name: str, *arguments: Any) -> tuple[list[Any], list[Any]]:
    """The arguments as old scripts order them, with beta, or beta and alpha, before what they multiply."""
    factors = [each for each in arguments if not isinstance(each, Tensor)]
    if len(arguments) - len(factors) != 3 or len(factors) > 2:
        raise TypeError(f"{name}() takes three tensors, and beta and alpha by their names")
    return [each for each in arguments if isinstance(each, Tensor)], [*factors, 1][:2]


@operation(samples=_affine_samples((2, 4), (2, 3), (3, 4)), inplace=True)
def addmm(input: Any, mat1: Any, mat2: Any, *last: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    """`beta * input + alpha * (mat1 @ mat2)` in one step.

    >>> import pellucid as torch
    >>> torch.addmm(torch.ones(2), torch.ones(1, 3), torch.ones(3, 2), alpha=10)
    tensor([[31., 31.]])
    """
    if last:
        (input, mat1, mat2), (beta, alpha) = _once("addmm", input, mat1, mat2, *last)
    input, mat1, mat2 = tensors("addmm", input, mat1, mat2)
    ranks = f"{mat1.ndim}-D and {mat2.ndim}-D tensors"
    expect(mat1.ndim == 2 and mat2.ndim == 2, f"addmm: mat1 and mat2 must be matrices, got {ranks}")
    return addmm_row(input, mat1, mat2, beta, alpha)


@operation(samples=_affine_samples((2,), (2, 3), (3,)), inplace=True)
def addmv(input: Any, mat: Any, vec: Any, *last: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    """`beta * input + alpha * (mat @ vec)` in one step.

    >>> import pellucid as torch
    >>> torch.addmv(torch.ones(2), torch.ones(2, 3), torch.ones(3))
    tensor([4., 4.])
    """
    if last:
        (input, mat, vec), (beta, alpha) = _once("addmv", input, mat, vec, *last)
    input, mat, vec = tensors("addmv", input, mat, vec)
    expect(
        mat.ndim == 2 and vec.ndim == 1,
        f"addmv: vector + matrix @ vector expected, got {input.ndim}, {mat.ndim}, {vec.ndim}",
    )
    return addmv_row(input, mat, vec, beta, alpha)


@operation(samples=_affine_samples((2, 3), (2,), (3,)), inplace=True, out="cast")
def addr(input: Any, vec1: Any, vec2: Any, *last: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    """`beta * input + alpha * outer(vec1, vec2)` in one step.

    >>> import pellucid as torch
    >>> torch.addr(torch.ones(1, 2), torch.ones(1), torch.ones(2))
    tensor([[2., 2.]])
    """
    if last:
        (input, vec1, vec2), (beta, alpha) = _once("addr", input, vec1, vec2, *last)
    must_be_tensors("addr", input=input, vec1=vec1, vec2=vec2)
    kind = dtypes.promote_types(dtypes.promote_types(input.dtype, vec1.dtype), vec2.dtype)
    for label, factor in (("beta", beta), ("alpha", alpha)):
        check_multiplier(label, factor, dtypes.as_numpy_dtype(kind).kind)
    if kind is dtypes.bool_:
        return input * bool(beta) | vec1.unsqueeze(1) * vec2 * bool(alpha)  # of truth values: or, and
    input, vec1, vec2 = (as_type(each, kind) for each in (input, vec1, vec2))
    ranks = f"{vec1.ndim}-D and {vec2.ndim}-D"
    expect(vec1.ndim == 1 and vec2.ndim == 1, f"addr: Expected 1-D argument vec1 and vec2, but got {ranks}")
    return addr_row(input, vec1, vec2, beta, alpha)


@operation(samples=_affine_samples((2, 3, 5), (2, 3, 4), (2, 4, 5)), inplace=True)
def baddbmm(input: Any, batch1: Any, batch2: Any, *last: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    """`beta * input + alpha * bmm(batch1, batch2)` in one step.

    >>> import pellucid as torch
    >>> torch.baddbmm(torch.ones(1), torch.ones(2, 1, 3), torch.ones(2, 3, 1)).shape
    torch.Size([2, 1, 1])
    """
    if last:
        (input, batch1, batch2), (beta, alpha) = _once("baddbmm", input, batch1, batch2, *last)
    input, batch1, batch2 = tensors("baddbmm", input, batch1, batch2)
    expect_stacks("baddbmm", batch1, batch2)
    return baddbmm_row(input, batch1, batch2, beta, alpha)


@operation(samples=_affine_samples((3, 5), (2, 3, 4), (2, 4, 5)), inplace=True)
def addbmm(input: Any, batch1: Any, batch2: Any, *last: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    """`beta * input + alpha * bmm(batch1, batch2).sum(0)` in one step.

    >>> import pellucid as torch
    >>> torch.addbmm(torch.zeros(1), torch.ones(2, 1, 3), torch.ones(2, 3, 1))
    tensor([[6.]])
    """
    if last:
        (input, batch1, batch2), (beta, alpha) = _once("addbmm", input, batch1, batch2, *last)
    input, batch1, batch2 = tensors("addbmm", input, batch1, batch2)
    expect_stacks("addbmm", batch1, batch2)
    return addbmm_row(input, batch1, batch2, beta, alpha)


# --- the linear layer


def _linear(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.dot(a, b.T) if a.ndim == 1 else product(a, b.T)


def _linear_with_bias(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    if a.ndim == 1 or c.ndim != 1:
        y = product(a, b.T) if a.ndim > 1 else np.dot(a, b.T)
        y += c
        return y
    leading = a.shape[:-1]
    return gemm(rows_of(a), b.T, c).reshape(*leading, b.shape[0])


def _input_gradient(g: Any, b: Any) -> Any:
    """The gradient of x in x @ W.T, for x of any rank."""
    return matmul_row(g, b) if g.ndim > 1 else matmul(g, b)


def _weight_gradient(g: Any, a: Any) -> Any:
    """The gradient of W in x @ W.T, summed over all leading dimensions by one product."""
    return mm_row(swap(rows_of(g)), rows_of(a))


def _linear_jvp(tangents: Sequence[Any], y: Any, inputs: Sequence[Any], params: tuple[Any, ...]) -> Any:
    (tx, tw, tb), (x, weight, _) = tangents, inputs
    terms = [None if tx is None else linear_row(tx, weight), None if tw is None else linear_row(x, tw)]
    terms.append(None if tb is None else stretch(tb, y))
    return add_up(term for term in terms if term is not None)


def _batch_linear(op: Any, a: Any, b: Any) -> Any:
    weight = shared(b)
    if weight is not None:  # to the bit what a layer does that is given the whole batch
        return op(a, weight)
    if a.ndim == 2:  # each sample is one vector
        return mv_batched(b, a)
    return matmul_row(a, swap(b)) if a.ndim == 3 else matmul_batched(matmul_row, a, swap(b))


def _batch_linear_with_bias(op: Any, a: Any, b: Any, c: Any) -> Any:
    weight, bias = shared(b), shared(c)
    if weight is not None and bias is not None:
        return op(a, weight, bias)
    return _batch_linear(linear_row, a, b) + aligned(c, a.ndim - 1)


linear_row = bind(
    multilinear(
        "linear", _linear, _input_gradient, _weight_gradient,
        dtypes="equal", lower="gemm", hint=linear_hint, batch=_batch_linear,
        grad_names=lambda shape: {1: "SqueezeBackward4", 2: "MmBackward0"}.get(len(shape), "UnsafeViewBackward0"),
    )
)  # fmt: skip
linear_with_bias_row = bind(
    general(
        "linear_with_bias", _linear_with_bias, _input_gradient, _weight_gradient, same,
        jvp=_linear_jvp, dtypes="equal", lower="gemm", hint=linear_hint,
        grad_names=lambda shape: "AddmmBackward0" if len(shape) == 2 else "ViewBackward0",
        batch=_batch_linear_with_bias,
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
    out="exact",
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
