"""NumPy's products, its linear algebra and its Fourier transforms.

Operands of different dtypes are brought to one first, as NumPy does and PyTorch's products do not.
"""

from typing import Any

from pellucid.core.tensor import Tensor
from pellucid.interop.vocabulary import Array, Function, floating, floats, lift, named, promoted, torch, unsupported

# --- products


@named("linalg.matmul")
def matmul(x1: Any, x2: Any, /) -> Tensor:
    return torch.matmul(*promoted(x1, x2))


@named("linalg.vecdot")
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    first, second = promoted(x1, x2)
    if first.shape[axis] != second.shape[axis]:
        raise ValueError(f"vecdot: vectors of {first.shape[axis]} and {second.shape[axis]} elements along axis {axis}")
    return (torch.conj(first) * second).sum(axis).to(first.dtype)


def matvec(x1: Any, x2: Any, /) -> Tensor:
    """What `np.matvec` computes: matrices times vectors."""
    matrix, vector = promoted(x1, x2)
    return torch.matmul(matrix, vector[..., None])[..., 0]


def vecmat(x1: Any, x2: Any, /) -> Tensor:
    """What `np.vecmat` computes: conjugated vectors times matrices."""
    vector, matrix = promoted(x1, x2)
    return torch.matmul(torch.conj(vector)[..., None, :], matrix)[..., 0, :]


@named("dot")
def dot(a: Any, b: Any, out: Any = None) -> Tensor:
    """A sum over the last axis of the first and the last but one of the second."""
    first, second = promoted(a, b)
    if first.ndim == 0 or second.ndim == 0:
        return first * second
    if first.ndim <= 2 and second.ndim <= 2:
        return torch.matmul(first, second)
    return torch.tensordot(first, second, ([-1], [-2 if second.ndim > 1 else -1]))


@named("inner")
def inner(a: Any, b: Any) -> Tensor:
    return torch.inner(*promoted(a, b))


@named("outer", "linalg.outer")
def outer(a: Any, b: Any, out: Any = None) -> Tensor:
    first, second = promoted(a, b)
    return torch.outer(first.reshape((-1,)), second.reshape((-1,)))


@named("vdot")
def vdot(a: Any, b: Any) -> Tensor:
    first, second = promoted(a, b)
    return torch.vdot(first.reshape((-1,)), second.reshape((-1,)))


@named("tensordot", "linalg.tensordot")
def tensordot(a: Any, b: Any, axes: Any = 2) -> Tensor:
    if isinstance(axes, int):
        return torch.tensordot(*promoted(a, b), axes)
    return torch.tensordot(*promoted(a, b), tuple([i] if isinstance(i, int) else list(i) for i in axes))


@named("einsum")
def einsum(subscripts: Any, *operands: Any, out: Any = None, optimize: Any = False) -> Tensor:
    if isinstance(subscripts, str):
        return torch.einsum(subscripts, *promoted(*operands))
    result = operands[-1:] if len(operands) % 2 == 0 else ()  # array, its axes, array, its axes, ..., the result's axes
    pairs = (subscripts, *operands[: len(operands) - len(result)])
    arrays = promoted(*pairs[0::2])
    return torch.einsum(*(part for pair in zip(arrays, pairs[1::2], strict=True) for part in pair), *result)


@named("kron")
def kron(a: Any, b: Any) -> Tensor:
    return torch.kron(*promoted(a, b))


@named("cross")
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Tensor:
    if axis is not None:
        axisa = axisb = axisc = axis
    first, second = promoted(a, b)
    turned = torch.broadcast_tensors(torch.movedim(first, axisa, -1), torch.movedim(second, axisb, -1))
    return torch.movedim(torch.cross(*turned, dim=-1), -1, axisc)


@named("linalg.cross")
def linalg_cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    return torch.cross(*torch.broadcast_tensors(*promoted(x1, x2)), dim=axis)


@named("trace")
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Tensor:
    return torch.diagonal(lift(a), offset, axis1, axis2).sum(-1, dtype=dtype)


@named("linalg.trace")
def linalg_trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    return torch.diagonal(lift(x), offset, -2, -1).sum(-1, dtype=dtype)


@named("linalg.diagonal")
def linalg_diagonal(x: Any, /, *, offset: int = 0) -> Tensor:
    return torch.diagonal(lift(x), offset, -2, -1)


@named("convolve")
def convolve(a: Any, v: Any, mode: str = "full") -> Tensor:
    signal, kernel = promoted(a, v)
    if kernel.shape[0] > signal.shape[0]:
        signal, kernel = kernel, signal
    return _slid(signal, kernel.flip(0), mode)


@named("correlate")
def correlate(a: Any, v: Any, mode: str = "valid") -> Tensor:
    first, second = promoted(a, v)
    if second.shape[0] > first.shape[0]:
        return _slid(torch.conj(second), first, mode).flip(0)
    return _slid(first, torch.conj(second), mode)


def _slid(signal: Array, kernel: Array, mode: str) -> Array:
    """The products of a kernel with every window of a longer signal."""
    width, length = kernel.shape[0], signal.shape[0]
    left = {"valid": 0, "same": width // 2, "full": width - 1}[mode]
    right = {"valid": 0, "same": width - 1 - width // 2, "full": width - 1}[mode]
    padded = torch.cat([signal.new_zeros(left), signal, signal.new_zeros(right)], 0)
    assert padded.shape[0] == length + left + right
    return torch.matmul(padded.unfold(0, width, 1), kernel)


@named("cov")
def cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None, fweights: Any = None,
    aweights: Any = None,
) -> Tensor:  # fmt: skip
    weights = {name: lift(w) for name, w in (("fweights", fweights), ("aweights", aweights)) if w is not None}
    return torch.cov(_variables(m, y, rowvar), correction=int(not bias) if ddof is None else ddof, **weights)


@named("corrcoef")
def corrcoef(x: Any, y: Any = None, rowvar: bool = True) -> Tensor:
    return torch.corrcoef(_variables(x, y, rowvar))


def _variables(m: Any, y: Any, rowvar: bool) -> Array:
    """One variable a row."""
    parts = [torch.atleast_2d(part) for part in floats(*(v for v in (m, y) if v is not None))]
    rows = [part if rowvar or part.shape[0] == 1 else part.T for part in parts]
    return torch.cat(rows, 0) if len(rows) > 1 or lift(m).ndim > 1 else rows[0][0]


# --- linear algebra


def _matrix_function(name: str) -> Function:
    """A function of one matrix that NumPy and PyTorch spell alike."""

    def function(a: Any, /) -> Any:
        return getattr(torch.linalg, name)(floating(a))

    return named(f"linalg.{name}")(function)


det, slogdet, inv, eig, eigvals, svdvals = (
    _matrix_function(name) for name in ("det", "slogdet", "inv", "eig", "eigvals", "svdvals")
)


@named("linalg.cholesky")
def cholesky(a: Any, /, *, upper: bool = False) -> Tensor:
    return torch.linalg.cholesky(floating(a), upper=upper)


@named("linalg.solve")
def solve(a: Any, b: Any) -> Tensor:
    """A right side of one dimension is a vector, any other a matrix; PyTorch also sees stacks of vectors."""
    matrix, right = floats(a, b)
    if right.ndim > 1:
        right = right.reshape((1,) * (matrix.ndim - right.ndim) + tuple(right.shape))
    return torch.linalg.solve(matrix, right)


@named("linalg.tensorinv")
def tensorinv(a: Any, ind: int = 2) -> Tensor:
    return torch.linalg.tensorinv(floating(a), ind)


@named("linalg.tensorsolve")
def tensorsolve(a: Any, b: Any, axes: Any = None) -> Tensor:
    return torch.linalg.tensorsolve(*floats(a, b), dims=axes)


@named("linalg.lstsq")
def lstsq(a: Any, b: Any, rcond: Any = None) -> tuple[Any, ...]:
    matrix, right = floats(a, b)
    columns = right if right.ndim > 1 else right[:, None]
    found = torch.linalg.lstsq(matrix, columns, rcond=rcond, driver="gelsd")
    solution = found.solution if right.ndim > 1 else found.solution[..., 0]
    return solution, found.residuals, found.rank, found.singular_values


@named("linalg.pinv")
def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Tensor:
    given = rcond if rtol is None else rtol
    return torch.linalg.pinv(floating(a), hermitian=hermitian, **({} if given is None else {"rtol": given}))


@named("linalg.matrix_power")
def matrix_power(a: Any, n: int) -> Tensor:
    return torch.linalg.matrix_power(lift(a), n)


@named("linalg.matrix_rank")
def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Tensor:
    limits = {name: value for name, value in (("atol", tol), ("rtol", rtol)) if value is not None}
    return torch.linalg.matrix_rank(floating(A), hermitian=hermitian, **limits)


@named("linalg.eigh")
def eigh(a: Any, UPLO: str = "L") -> Any:
    return torch.linalg.eigh(floating(a), UPLO)


@named("linalg.eigvalsh")
def eigvalsh(a: Any, UPLO: str = "L") -> Tensor:
    return torch.linalg.eigvalsh(floating(a), UPLO)


@named("linalg.svd")
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    return torch.linalg.svd(floating(a), full_matrices) if compute_uv else torch.linalg.svdvals(floating(a))


@named("linalg.qr")
def qr(a: Any, mode: str = "reduced") -> Any:
    if mode not in ("reduced", "complete", "r"):
        raise unsupported(f"np.linalg.qr: mode {mode!r} is not there for tensors")
    found = torch.linalg.qr(floating(a), "complete" if mode == "complete" else "reduced")
    return found.R if mode == "r" else found


@named("linalg.cond")
def cond(x: Any, p: Any = None) -> Tensor:
    return torch.linalg.cond(floating(x), p)


@named("linalg.multi_dot")
def multi_dot(arrays: Any, *, out: Any = None) -> Tensor:
    return torch.linalg.multi_dot(promoted(*arrays))


@named("linalg.norm")
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    return torch.linalg.norm(floating(x), ord, axis, bool(keepdims))


@named("linalg.vector_norm")
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Tensor:
    return torch.linalg.vector_norm(floating(x), ord, axis, bool(keepdims))


@named("linalg.matrix_norm")
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    return torch.linalg.matrix_norm(floating(x), ord, keepdim=bool(keepdims))


# --- Fourier transforms


def _transform(name: str) -> Function:
    def function(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None, out: Any = None) -> Tensor:
        return getattr(torch.fft, name)(lift(a), n, axis, norm)

    return named(f"fft.{name}")(function)


def _plane_transform(name: str) -> Function:
    def function(a: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None, out: Any = None) -> Tensor:
        return getattr(torch.fft, name)(lift(a), s, axes, norm)

    return named(f"fft.{name}")(function)


def _space_transform(name: str) -> Function:
    def function(a: Any, s: Any = None, axes: Any = None, norm: str | None = None, out: Any = None) -> Tensor:
        return getattr(torch.fft, name)(lift(a), s, axes, norm)

    return named(f"fft.{name}")(function)


def _shift(name: str) -> Function:
    def function(x: Any, axes: Any = None) -> Tensor:
        return getattr(torch.fft, name)(lift(x), axes)

    return named(f"fft.{name}")(function)


TRANSFORMS = {
    **{name: _transform(name) for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")},
    **{name: _plane_transform(name) for name in ("fft2", "ifft2", "rfft2", "irfft2")},
    **{name: _space_transform(name) for name in ("fftn", "ifftn", "rfftn", "irfftn")},
    **{name: _shift(name) for name in ("fftshift", "ifftshift")},
}
