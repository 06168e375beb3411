"""Named results: what an operation with several results returns, printed the way PyTorch prints it."""

from collections import namedtuple
from typing import Any

__all__ = [
    "aminmax", "cummax", "cummin", "frexp", "geqrf", "histogram", "histogramdd", "kthvalue", "linalg_cholesky_ex",
    "linalg_eig", "linalg_eigh", "linalg_inv_ex", "linalg_ldl_factor", "linalg_ldl_factor_ex", "linalg_lstsq",
    "linalg_lu", "linalg_lu_factor", "linalg_lu_factor_ex", "linalg_qr", "linalg_slogdet", "linalg_solve_ex",
    "linalg_svd", "lu_unpack", "max", "median", "min", "mode", "nanmedian", "qr", "slogdet", "sort", "svd", "topk",
    "triangular_solve",
]  # fmt: skip


def named(name: str, *fields: str) -> Any:
    """A tuple type with names for its fields.

    >>> named("sort", "values", "indices")(1, 2)
    torch.return_types.sort(
    values=1,
    indices=2)
    """
    base: Any = namedtuple(name, fields)  # type: ignore[misc]
    return type(name, (base,), {"__slots__": (), "__repr__": _written, "__module__": "pellucid.return_types"})


def _written(result: Any) -> str:
    lines = ",\n".join(f"{field}={value!r}" for field, value in zip(result._fields, result, strict=True))
    return f"torch.return_types.{type(result).__name__}(\n{lines})"


aminmax = named("aminmax", "min", "max")
cummax = named("cummax", "values", "indices")
cummin = named("cummin", "values", "indices")
frexp = named("frexp", "mantissa", "exponent")
geqrf = named("geqrf", "a", "tau")
histogram = named("histogram", "hist", "bin_edges")
histogramdd = named("histogramdd", "hist", "bin_edges")
kthvalue = named("kthvalue", "values", "indices")
linalg_cholesky_ex = named("linalg_cholesky_ex", "L", "info")
linalg_eig = named("linalg_eig", "eigenvalues", "eigenvectors")
linalg_eigh = named("linalg_eigh", "eigenvalues", "eigenvectors")
linalg_inv_ex = named("linalg_inv_ex", "inverse", "info")
linalg_ldl_factor = named("linalg_ldl_factor", "LD", "pivots")
linalg_ldl_factor_ex = named("linalg_ldl_factor_ex", "LD", "pivots", "info")
linalg_lstsq = named("linalg_lstsq", "solution", "residuals", "rank", "singular_values")
linalg_lu = named("linalg_lu", "P", "L", "U")
linalg_lu_factor = named("linalg_lu_factor", "LU", "pivots")
linalg_lu_factor_ex = named("linalg_lu_factor_ex", "LU", "pivots", "info")
linalg_qr = named("linalg_qr", "Q", "R")
linalg_slogdet = named("linalg_slogdet", "sign", "logabsdet")
linalg_solve_ex = named("linalg_solve_ex", "result", "info")
linalg_svd = named("linalg_svd", "U", "S", "Vh")
lu_unpack = named("lu_unpack", "P", "L", "U")
max = named("max", "values", "indices")
median = named("median", "values", "indices")
min = named("min", "values", "indices")
mode = named("mode", "values", "indices")
nanmedian = named("nanmedian", "values", "indices")
qr = named("qr", "Q", "R")
slogdet = named("slogdet", "sign", "logabsdet")
sort = named("sort", "values", "indices")
svd = named("svd", "U", "S", "V")
topk = named("topk", "values", "indices")
triangular_solve = named("triangular_solve", "solution", "cloned_coefficient")
