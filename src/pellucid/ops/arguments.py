"""What the operations ask of their arguments: dimensions, sizes and dtypes in normal form, or a refusal.

A refusal is an error in PyTorch's words that names the user's line and, where it can, says why and what to try.
"""

from collections.abc import Callable
from operator import index as as_int
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core.provenance import here
from pellucid.core.tensor import Tensor
from pellucid.errors import explain

Axes = tuple[int, ...]
Shape = tuple[int, ...]
Row = Callable[..., Any]
ALL = slice(None)
INTEGERS = frozenset((int,))


def refusal(kind: type[Exception], what: str, why: str | None = None, try_: str | None = None) -> Exception:
    """An error with the user's line; a row's forward may raise it and it passes through as it is."""
    error = kind(explain(what, str(here()), why, try_))
    error.explained = True  # type: ignore[attr-defined]
    return error


def number(value: Any) -> Any:
    """A NumPy number as one of Python's, whose dtype does not count when it meets a tensor; others as they are."""
    return value.item() if isinstance(value, np.generic) else value


def as_number(value: Any) -> Any:
    """What PyTorch takes where a number is asked for: also a tensor of no dimensions that needs no gradient.

    >>> import pellucid as torch
    >>> as_number(torch.tensor(3)), as_number(torch.tensor([3]))
    (3, tensor([3]))
    """
    if isinstance(value, Tensor) and not value.array.ndim and not value.requires_grad:  # type: ignore[attr-defined]
        return value.item()  # type: ignore[attr-defined]
    return number(value)


def underivable(name: str) -> Any:
    """The rule, or jvp, of an operation that PyTorch cannot differentiate either: a walk that comes here is refused."""

    def rule(*_: Any) -> Any:
        raise refusal(NotImplementedError, f"the derivative for '{name}' is not implemented.", try_="detach() it")

    return rule


def no_slope(name: str) -> Any:
    """The same for an operation on each element: the table reads the parameters of such a rule."""

    def rule(g: Any) -> Any:
        return underivable(name)(g)

    return rule


def axis_of(dim: Any, ndim: int) -> int:
    """A dimension as a non-negative int; a 0-d tensor counts as one of a single dimension.

    >>> axis_of(-1, 3)
    2
    """
    if dim is True or dim is False:  # `x.sum(True)` means keepdim
        what = f"a dimension must be int, not bool (got {dim})"
        raise refusal(TypeError, what, try_="keepdim=True, by its name")
    axis = as_int(dim)
    span = ndim or 1
    if not -span <= axis < span:
        raise outside(axis, span, ndim)
    return axis % span


def outside(axis: int, span: int, ndim: int) -> Exception:
    """A dimension that the tensor has not, in PyTorch's words to the letter: other libraries' tests compare them.

    The user's line and the reason go along as a note, which a traceback prints below the words.
    """
    what = f"Dimension out of range (expected to be in range of [{-span}, {span - 1}], but got {axis})"
    error = IndexError(what)
    error.add_note(explain("", str(here()), f"the tensor has {ndim} dimensions").removeprefix("\n"))
    error.explained = True  # type: ignore[attr-defined]
    return error


def check_multiplier(name: str, value: Any, kind: str) -> None:
    """Refuse an `alpha`, `beta` or the like of another kind ("b", "i", "f", "c") than the result may have."""
    if type(value) is int or (type(value) is float and kind == "f"):  # by far the most frequent
        return
    if isinstance(value, bool) and kind != "b":
        raise refusal(RuntimeError, f"Boolean {name} only supported for Boolean results.")
    for wrong, kinds, is_one, what in (
        (float, "biu", "a floating point number", "integral"), (complex, "biuf", "a complex number", "non-complex"),
    ):  # fmt: skip
        if isinstance(value, wrong) and kind in kinds:
            raise refusal(
                RuntimeError, f"For {what} input tensors, argument {name} must not be {is_one}.", f"{name} is {value}",
                "convert a tensor first, e.g. x.float()",
            )  # fmt: skip


def means_all(dim: Any) -> bool:
    """Whether a `dim` stands for all dimensions.

    >>> means_all(None), means_all(()), means_all([]), means_all(0)
    (True, True, True, False)
    """
    return dim is None or (isinstance(dim, (tuple, list)) and not dim)


def axes_of(dims: Any, ndim: int) -> Axes:
    """One or several dimensions as non-negative ints, each at most once."""
    axes = tuple(axis_of(d, ndim) for d in (dims if isinstance(dims, (tuple, list)) else (dims,)))
    if len(set(axes)) != len(axes):
        twice = next(axis for axis in axes if axes.count(axis) > 1)
        raise refusal(RuntimeError, f"dim {twice} appears multiple times in the list of dims")
    return axes


def shifted(axes: Axes) -> Axes:
    """The same axes behind a batch axis."""
    return tuple(i + 1 for i in axes)


def sizes_of(sizes: Any) -> Shape:
    """Sizes given as `(2, 3)` or as `2, 3`: a tuple of ints.

    >>> sizes_of(((2, 3),)), sizes_of((2, 3))
    ((2, 3), (2, 3))
    """
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        sizes = sizes[0]
    return tuple(map(as_int, sizes))


def one_or_several(axes: tuple[Any, ...], dim: Any) -> Any:
    """Dimensions given as `0, 1`, as `(0, 1)`, as `0` or by keyword, where None stands for all.

    >>> one_or_several((0, 1), None), one_or_several((), 2), one_or_several(((0, 1),), None), one_or_several((), None)
    ((0, 1), 2, (0, 1), None)
    """
    return dim if not axes else axes[0] if len(axes) == 1 else axes


def name_of(input: Any) -> str:
    """PyTorch's name of a tensor's dtype in error messages, such as Long."""
    return dtypes.scalar_name(dtypes.from_numpy_dtype(input.array.dtype))


def is_floating(input: Any) -> bool:
    """Whether a tensor holds real or complex numbers, not integers or truth values (bfloat16 is of kind V)."""
    return input.array.dtype.kind not in "biu"


def refuse(input: Any, kinds: str, what: str, error: type[Exception] = RuntimeError) -> None:
    """Raise PyTorch's error if the tensor's dtype is of one of these kinds (b: bool, c: complex, i: integer)."""
    if input.array.dtype.kind in kinds:
        raise refusal(error, what.format(name_of(input)), f"the dtype is {input.dtype}")


def expect(fits: bool, what: str, why: str | None = None, try_: str | None = None) -> None:
    """Raise PyTorch's error for arguments of the wrong rank or size."""
    if not fits:
        raise refusal(RuntimeError, what, why, try_)
