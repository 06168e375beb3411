"""torch._foreach_*: one operation on every tensor of a list, as hand-written optimisers and averages of weights use it.

>>> import pellucid as torch
>>> weights = [torch.ones(2), torch.ones(1)]
>>> torch._foreach_mul(weights, 3.0)
(tensor([3., 3.]), tensor([3.]))
>>> torch._foreach_add_(weights, weights, alpha=2)
[tensor([3., 3.]), tensor([3.])]

They are the published operations, called once per tensor; lists among the further arguments go along.
"""

from collections.abc import Sequence
from typing import Any

from pellucid.core.tensor import Tensor
from pellucid.ops.arguments import refusal
from pellucid.ops.operation import WRITERS, Function

ELEMENTWISE = (
    "abs", "acos", "add", "addcdiv", "addcmul", "asin", "atan", "ceil", "clamp_max", "clamp_min", "cos", "cosh", "div",
    "erf", "erfc", "exp", "expm1", "floor", "frac", "lerp", "lgamma", "log", "log10", "log1p", "log2", "mul", "neg",
    "pow", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "sub", "tan", "tanh", "trunc",
)  # fmt: skip
REDUCING = ("clone", "max", "norm")  # no in-place form
METHODS = {"maximum": "clamp_min", "minimum": "clamp_max"}  # these take numbers as well
WRITING = ("copy", "zero")  # an in-place form only


def _each(tensors: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[list[Any], dict[str, Any]]]:
    """The arguments for each tensor in turn: of lists, and of a vector of numbers, its own element."""
    if not isinstance(tensors, (list, tuple)) or not tensors:
        raise refusal(RuntimeError, "Tensor list must have at least one tensor.")

    def own(value: Any, i: int) -> Any:
        if isinstance(value, Tensor) and value.array.shape == (len(tensors),) and value is args[-1] and len(args) > 2:
            return value.array[i].item()
        if not isinstance(value, (list, tuple)):
            return value
        if len(value) != len(tensors):
            raise refusal(
                RuntimeError,
                "Tensor lists must have the same number of tensors, and a scalar list as many elements, "
                f"got {len(tensors)} and {len(value)}",
            )
        return value[i]

    return [([own(value, i) for value in args], dict(kwargs)) for i in range(len(tensors))]


def _call(method: str, tensor: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    if method.startswith("addc") and len(args) == 3:
        return getattr(tensor, method)(*args[:2], value=args[2])
    return getattr(tensor, method)(*args, **kwargs)


def _new(name: str) -> Function:
    """The form that leaves the tensors as they are and returns a tuple."""
    method = METHODS.get(name, name)

    def function(self: Any, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        if name == "pow" and not isinstance(self, (list, tuple)):  # one base, many exponents
            return tuple(self**exponent for exponent in args[0])
        calls = _each(self, args, kwargs)
        return tuple(_call(method, x, *call) for x, call in zip(self, calls, strict=True))

    return _named(function, f"_foreach_{name}", f"`{name}` of every tensor of a list.")


def _writer(name: str) -> Function:
    """The in-place form: everything is checked by the operations themselves; returns the list."""
    method = f"{METHODS.get(name, name)}_"

    def function(self: Any, *args: Any, **kwargs: Any) -> Any:
        calls = _each(self, args, kwargs)
        for x, call in zip(self, calls, strict=True):
            _call(method, x, *call)
        return self

    return _named(function, f"_foreach_{name}_", f"`{name}_` of every tensor of a list.")


def _named(function: Function, name: str, doc: str) -> Function:
    function.__name__ = function.__qualname__ = name
    function.__module__, function.__doc__ = "pellucid", doc
    return function


for _name in (*ELEMENTWISE, *REDUCING, *METHODS):
    WRITERS[f"torch._foreach_{_name}"] = _new(_name)
for _name in (*ELEMENTWISE, *METHODS, *WRITING):
    WRITERS[f"torch._foreach_{_name}_"] = _writer(_name)
