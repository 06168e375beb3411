"""What the tables of NumPy's functions are written in: Pellucid's operations by name, and arguments made tensors."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core.inplace import check_writable, overwrite
from pellucid.core.primitive import parameters
from pellucid.core.provenance import here
from pellucid.core.tensor import Tensor
from pellucid.errors import explain
from pellucid.ops import construct, create, load_families, ranges
from pellucid.ops.operation import OPERATIONS

Function = Callable[..., Any]
Array = Any  # a Tensor: its operators and methods come from the rows, and mypy does not see them


class Vocabulary:
    """Pellucid's operations under PyTorch's names, each looked up when it is first used.

    >>> torch.linalg.multi_dot.__name__
    'multi_dot'
    """

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # Python's own questions about an object
            raise AttributeError(name)
        path = self._prefix + name
        found: Any = known(path)
        if found is None and any(other.startswith(f"{path}.") for other in OPERATIONS):
            found = Vocabulary(f"{path}.")
        if found is None:
            raise unsupported(f"this needs torch.{path}, which Pellucid does not have")
        setattr(self, name, found)
        return found


def known(path: str) -> Function | None:
    """The operation or creation function of a name, or None."""
    for module in (construct, create, ranges):
        if path in module.__all__:
            found: Function = getattr(module, path)
            return found
    if path not in OPERATIONS:
        load_families()
    public = OPERATIONS[path].function if path in OPERATIONS else None
    return getattr(public, "with_numbers", public)  # NumPy takes a number for an array everywhere


torch = Vocabulary()


# --- NumPy's functions by name

NAMED: dict[str, Function] = {}  # by their path within numpy: "sum", "linalg.inv"


def named(*paths: str) -> Callable[[Function], Function]:
    """Say which functions of NumPy a function stands for.

    It has NumPy's parameters, in NumPy's order. A parameter `out` is only there for its place: what it is given is
    filled with the result.
    """

    def register(function: Function) -> Function:
        function.__name__ = function.__qualname__ = paths[0]
        result = _with_out(function) if "out" in _all_parameters(function) else function
        NAMED.update(dict.fromkeys(paths, result))
        return result

    return register


def _all_parameters(function: Function) -> tuple[str, ...]:
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _with_out(function: Function) -> Function:
    place = parameters(function).index("out") if "out" in parameters(function) else None

    @wraps(function)
    def filling(*args: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", None)
        if place is not None and len(args) > place:
            out, args = args[place], (*args[:place], None, *args[place + 1 :])
        result = function(*args, **kwargs)
        return result if out is None else written(out, result, f"np.{function.__name__}")

    return filling


# --- arguments and results


def lift(value: Any) -> Array:
    """A tensor of what NumPy calls array-like; a list may hold tensors, which keep their history.

    >>> import pellucid
    >>> lift([pellucid.ones(2), [3.0, 4.0]])
    tensor([[1., 1.],
            [3., 4.]])
    """
    if isinstance(value, Tensor):
        return value
    if isinstance(value, (list, tuple)) and holds_tensor(value):
        return torch.stack(beside(*value))
    return Tensor.from_data(value)


def holds_tensor(value: Any) -> bool:
    """Whether nested lists hold a tensor somewhere."""
    return isinstance(value, Tensor) or (isinstance(value, (list, tuple)) and any(map(holds_tensor, value)))


def as_type(value: Any, dtype: Any) -> Array:
    """The value as a tensor of a dtype, which may be named as NumPy names it; None leaves it."""
    if dtype is None:
        return lift(value)
    if holds_tensor(value):
        return lift(value).to(as_dtype(dtype))
    return Tensor.from_data(value, dtype=as_dtype(dtype))  # at once: 0.1 is not float32 on its way to float64


def as_dtype(value: Any) -> dtypes.dtype:
    """One of our dtypes, named as NumPy's users name them, or our own."""
    return value if isinstance(value, dtypes.dtype) else dtypes.from_numpy_dtype(np.dtype(value))


def floating(value: Any, dtype: Any = None) -> Array:
    """The value as a tensor of floating-point (or complex) numbers: what NumPy averages integers in."""
    tensor = as_type(value, dtype)
    return tensor if tensor.array.dtype.kind not in "biu" else tensor.to(dtypes.get_default_dtype())


def promoted(*values: Any) -> list[Array]:
    """The values as tensors of one dtype, for operations that do not mix dtypes themselves."""
    common = dtypes.result_type(*map(lift, values))
    return [as_type(value, common) for value in values]


def beside(*values: Any) -> list[Array]:
    """The values as tensors; lists and numbers have all digits of the dtype that the tensors beside them have.

    >>> import pellucid
    >>> beside(0.1, pellucid.ones(1, dtype=pellucid.float64))[0].item()
    0.1
    """
    lifted = promoted(*values)
    return [value if isinstance(value, Tensor) else part for value, part in zip(values, lifted, strict=True)]


def floats(*values: Any) -> list[Array]:
    """The values as tensors of one floating-point dtype."""
    return [floating(tensor) for tensor in promoted(*values)]


def written(out: Any, result: Any, name: str) -> Any:
    """Fill what was given as `out`, one or a tuple, with a result; all is checked before anything is written."""
    outs = out if isinstance(out, tuple) else (out,)
    results = result if isinstance(result, tuple) else (result,)
    fitting = [_fitting(*pair, name) for pair in zip(outs, results, strict=True)]
    filled = [_filled(target, value, name) for target, value in zip(outs, fitting, strict=True)]
    return filled[0] if len(filled) == 1 else tuple(filled)


def _fitting(target: Any, result: Tensor, name: str) -> Any:
    """A result in the form in which it can be written: for an ndarray one that needs no gradient."""
    if target is None:
        return result
    if not isinstance(target, (Tensor, np.ndarray)):
        what = f"{name}: out must be a Tensor or an ndarray, not {type(target).__name__}"
        raise TypeError(explain(what, str(here())))
    if isinstance(target, Tensor):
        check_writable(target, name)
    values = torch.broadcast_to(result, tuple(target.shape))  # also for its node, which the target is given
    goal = as_dtype(target.dtype)
    if not dtypes.can_cast(values.dtype, goal):
        what = f"{name}: result type {values.dtype} can't be cast to the desired output type {goal}"
        raise RuntimeError(explain(what, str(here()), try_="give it an `out` of that type"))
    return values if isinstance(target, Tensor) else values.numpy()


def _filled(target: Any, value: Any, name: str) -> Any:
    """Write into a tensor as by an in-place operation, which keeps it differentiable, or into an ndarray."""
    if target is None:
        return value
    if isinstance(target, Tensor):
        return overwrite(target, value, name)
    np.copyto(target, value, casting="unsafe")
    return target


def unsupported(what: str, try_: str = "x.detach().numpy(), if the result needs no gradient") -> TypeError:
    """The refusal of what only NumPy can do."""
    why = "only functions that Pellucid has itself can be recorded, and a silent conversion would lose the graph"
    return TypeError(explain(what, str(here()), why, try_))
