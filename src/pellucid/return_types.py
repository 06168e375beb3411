"""Named results: what an operation with several results returns, printed the way PyTorch prints it."""

from collections import namedtuple
from typing import Any

from pellucid.core.homes import known

FIELDS = {
    "aminmax": ("min", "max"),
    "cummax": ("values", "indices"),
    "cummin": ("values", "indices"),
    "frexp": ("mantissa", "exponent"),
    "geqrf": ("a", "tau"),
    "histogram": ("hist", "bin_edges"),
    "histogramdd": ("hist", "bin_edges"),
    "kthvalue": ("values", "indices"),
    "linalg_cholesky_ex": ("L", "info"),
    "linalg_eig": ("eigenvalues", "eigenvectors"),
    "linalg_eigh": ("eigenvalues", "eigenvectors"),
    "linalg_inv_ex": ("inverse", "info"),
    "linalg_ldl_factor": ("LD", "pivots"),
    "linalg_ldl_factor_ex": ("LD", "pivots", "info"),
    "linalg_lstsq": ("solution", "residuals", "rank", "singular_values"),
    "linalg_lu": ("P", "L", "U"),
    "linalg_lu_factor": ("LU", "pivots"),
    "linalg_lu_factor_ex": ("LU", "pivots", "info"),
    "linalg_qr": ("Q", "R"),
    "linalg_slogdet": ("sign", "logabsdet"),
    "linalg_solve_ex": ("result", "info"),
    "linalg_svd": ("U", "S", "Vh"),
    "lu_unpack": ("P", "L", "U"),
    "max": ("values", "indices"),
    "median": ("values", "indices"),
    "min": ("values", "indices"),
    "mode": ("values", "indices"),
    "nanmedian": ("values", "indices"),
    "qr": ("Q", "R"),
    "slogdet": ("sign", "logabsdet"),
    "sort": ("values", "indices"),
    "svd": ("U", "S", "V"),
    "topk": ("values", "indices"),
    "triangular_solve": ("solution", "cloned_coefficient"),
}  # fmt: skip

__all__ = [*FIELDS]


def __getattr__(name: str) -> Any:
    """The type of one operation's results: made when first asked for, as making all would take 4 ms of the import.

    >>> from pellucid import return_types
    >>> return_types.sort(1, 2)
    torch.return_types.sort(
    values=1,
    indices=2)
    """
    if name not in FIELDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    base: Any = namedtuple(name, FIELDS[name])  # type: ignore[misc]

    def new(cls: Any, *values: Any, **named: Any) -> Any:
        """From the values, or as in PyTorch from a tuple or list of them, beside which a file has a dictionary."""
        gathered = not named and (len(values) == 1 or (len(values) == 2 and isinstance(values[1], dict)))
        return base.__new__(cls, *(values[0] if gathered else values), **named)

    members = {"__slots__": (), "__new__": new, "__repr__": _written, "__reduce__": _pickled, "__module__": __name__}
    made = globals().setdefault(name, type(name, (base,), members | _counts(len(base._fields))))
    return known(made, "torch.return_types")


def _counts(fields: int) -> dict[str, int]:
    """What PyTorch's results, which Python's C library makes, say of their length; they are its only fields."""
    return {"n_fields": fields, "n_sequence_fields": fields, "n_unnamed_fields": 0}


def __dir__() -> list[str]:
    return __all__


def _written(result: Any) -> str:
    lines = ",\n".join(f"{field}={value!r}" for field, value in zip(result._fields, result, strict=True))
    return f"torch.return_types.{type(result).__name__}(\n{lines})"


def is_named(value: Any) -> bool:
    """Whether a value is one of the results that are made here.

    >>> import pellucid as torch
    >>> is_named(torch.ones(2).max(0)), is_named((1, 2))
    (True, False)
    """
    return isinstance(value, tuple) and globals().get(type(value).__name__) is type(value)


def _pickled(result: Any) -> Any:
    """By its own module: what is pickled inside `pellucid run` can be read outside."""
    return again, (type(result).__name__, tuple(result))


def again(name: str, values: tuple[Any, ...]) -> Any:
    """A result as it was before it was pickled."""
    if name not in FIELDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return (globals().get(name) or __getattr__(name))(values)
