"""What is said about an operation: anomaly mode and observers when it ran, an explanation when it failed."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core.modes import Mode
from pellucid.core.primitive import Primitive, as_written
from pellucid.core.provenance import here
from pellucid.core.tensor import Tensor
from pellucid.errors import AnomalyError, explain

HALVES = frozenset((np.dtype(np.float16), dtypes.bfloat16.numpy))


def attend(
    p: Primitive, tensors: Sequence[Tensor], params: tuple[Any, ...], outs: Sequence[Tensor], mode: Mode
) -> None:
    """Let anomaly mode and the observers look at an operation that has just run."""
    if mode.anomaly and mode.check_nan:
        for out in outs:
            check_forward(p, tensors, out)
    mode.tell(p, tensors, params, outs)


def check_forward(p: Primitive, tensors: Sequence[Tensor], out: Tensor) -> None:
    """Anomaly mode: complain about a NaN or Inf that this operation made out of finite inputs."""
    bad = first_bad(out.array)
    if bad is None or any(first_bad(t.array, bad[0]) is not None for t in tensors):
        return
    label, index = bad
    shapes = ", ".join(str(tuple(t.array.shape)) for t in tensors)
    values = ", ".join(_value_at(t.array, index, out.array.shape) for t in tensors)
    raise AnomalyError(
        explain(
            f"{as_written(p.name)} returned {label} at index {index}",
            str(here()),
            f"inputs of shape {shapes}; the input there was {values}",
            "look at the values that reach this line: the first bad number is made here",
        )
    )


def first_bad(array: Any, label: str | None = None) -> tuple[str, tuple[int, ...]] | None:
    """The first NaN or Inf of an array: its name and index."""
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fcV":
        return None
    values = array.astype(np.float32) if array.dtype in HALVES else np.asarray(array)
    for name, test in (("NaN", np.isnan), ("Inf", np.isinf)):
        if label in (None, name):
            found = test(values)
            if found.any():
                return name, tuple(int(i) for i in np.unravel_index(int(found.argmax()), found.shape))
    return None


def _value_at(array: Any, index: tuple[int, ...], shape: tuple[int, ...]) -> str:
    try:
        return f"{np.broadcast_to(array, shape)[index]:.6g}"
    except (ValueError, TypeError, IndexError):
        return "…"


def explained(p: Primitive, arrays: Sequence[Any], params: tuple[Any, ...], error: Exception) -> Exception:
    """An error of NumPy's as one of ours: the operation, the shapes and dtypes, the user's line, a way out."""
    if isinstance(error, (MemoryError, RuntimeError)) or getattr(error, "explained", False):
        return error  # a forward's own RuntimeError explains itself already, and so does any error so marked
    shapes = [tuple(array.shape) for array in arrays]
    described = " and ".join(
        f"{shape} {dtypes.from_numpy_dtype(a.dtype)}" for shape, a in zip(shapes, arrays, strict=True)
    )
    why, try_ = p.hint(shapes, params) if p.hint is not None else (str(error), None)
    what = f"{as_written(p.name)}: cannot take {described}"
    if isinstance(error, TypeError) and "not supported for the input types" in str(error):  # NumPy has no such loop
        found = dtypes.scalar_name(dtypes.from_numpy_dtype(arrays[0].dtype))
        what = f"\"{p.name}_cpu\" not implemented for '{found}': cannot take {described}"
        return NotImplementedError(explain(what, str(here()), why, try_))
    kind = IndexError if isinstance(error, IndexError) else RuntimeError
    return kind(explain(what, str(here()), why, try_))
