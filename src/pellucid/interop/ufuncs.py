"""NumPy's ufuncs on tensors: one table from ufunc to operation.

`array * x` and `np.float64(2) * x` arrive here too, because NumPy's own operators are ufuncs. A ufunc's methods are
there as far as there is an operation for them: `np.add.reduce` is a sum, `np.multiply.accumulate` a cumulative
product, and every binary ufunc has its `outer`.
"""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from pellucid.core.attributes import attribute
from pellucid.core.primitive import elementwise
from pellucid.core.record import bind
from pellucid.core.tensor import Tensor
from pellucid.interop import reductions
from pellucid.interop.products import matmul, matvec, vecdot, vecmat
from pellucid.interop.vocabulary import as_type, beside, known, lift, promoted, torch, unsupported, written

Function = Callable[..., Any]

# --- the table: NumPy's name, then the operation's where it has another one

SAME = """
absolute add arccos arccosh arcsin arcsinh arctan arctan2 arctanh bitwise_and bitwise_or bitwise_xor ceil copysign cos
cosh deg2rad divide exp exp2 expm1 float_power floor floor_divide fmax fmin fmod frexp greater greater_equal
hypot isfinite isinf isnan ldexp less less_equal log log10 log1p log2 logaddexp logaddexp2 logical_and
logical_not logical_or logical_xor maximum minimum multiply negative not_equal positive rad2deg reciprocal
remainder sgn signbit sin sinh sqrt square subtract tan tanh trunc
"""
OTHERWISE = {
    "conjugate": "conj", "degrees": "rad2deg", "equal": "eq", "fabs": "abs", "invert": "bitwise_not",
    "left_shift": "bitwise_left_shift", "power": "pow", "radians": "deg2rad", "right_shift": "bitwise_right_shift",
    "rint": "round", "sign": "sgn",
}  # fmt: skip
SPECIAL = """
entr erf erfc erfcx erfinv expit gammainc gammaincc gammaln i0 i0e i1 i1e log_ndtr logit ndtr ndtri psi xlog1py xlogy
"""  # SciPy's ufuncs, of the same name in torch.special


def divmod_(a: Any, b: Any) -> tuple[Any, Any]:
    return torch.floor_divide(a, b), torch.remainder(a, b)


def modf(a: Any) -> tuple[Any, Any]:
    return torch.frac(a), torch.trunc(a)


def _meeting(name: str) -> Function:
    """An operation that takes tensors of one dtype only, no numbers."""
    return lambda a, b: getattr(torch, name)(*promoted(a, b))


cbrt = bind(elementwise("cbrt", np.cbrt, lambda g, y: g / (3 * (y * y))))

OWN: dict[str, Function] = {
    "cbrt": cbrt, "divmod": divmod_, "matmul": matmul, "matvec": matvec, "modf": modf, "vecdot": vecdot,
    "vecmat": vecmat, **{name: _meeting(name) for name in ("gcd", "heaviside", "lcm", "nextafter")},
}  # fmt: skip

PATHS: dict[np.ufunc, str] = {
    getattr(np, name): path
    for name, path in {**{name: name for name in SAME.split()}, **OTHERWISE}.items()
    if hasattr(np, name)
}
READY: dict[np.ufunc, Function] = {getattr(np, name): function for name, function in OWN.items()}

REDUCE: dict[np.ufunc, Function] = {
    np.add: reductions.sum_, np.multiply: reductions.prod, np.maximum: reductions.max_, np.minimum: reductions.min_,
    np.logical_and: reductions.all_, np.logical_or: reductions.any_, np.logaddexp: reductions.logsumexp,
}  # fmt: skip
ACCUMULATE: dict[np.ufunc, Function] = {
    np.add: reductions.cumsum, np.multiply: reductions.cumprod, np.maximum: reductions.cummax,
    np.minimum: reductions.cummin, np.logaddexp: reductions.logcumsumexp,
}  # fmt: skip

# Operands that an operation takes as they are. NumPy's scalars count as Python's numbers, lists are made tensors, and a
# type that is not here may know better.
PLAIN = frozenset((Tensor, np.ndarray, float, int, bool, complex))
COMMUTATIVE = frozenset((np.add, np.multiply))  # with the tensor first they take the hot path
OPERANDS = (Tensor, np.generic, float, int, complex, list, tuple, np.memmap)


@attribute
def __array_ufunc__(self: Tensor, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """What NumPy asks a tensor when a ufunc meets one.

    >>> import numpy as np, pellucid as torch
    >>> x = torch.tensor([1.0, 4.0], requires_grad=True)
    >>> np.sqrt(x), np.ones(2, dtype=np.float32) - x
    (tensor([1., 2.], grad_fn=<SqrtBackward0>), tensor([ 0., -3.], grad_fn=<SubBackward0>))
    >>> np.multiply.outer(x, [1.0, 10.0])
    tensor([[ 1., 10.],
            [ 4., 40.]], grad_fn=<MulBackward0>)
    """
    operation = READY.get(ufunc) if not kwargs and method == "__call__" else None
    if operation is not None:
        if len(inputs) == 1:
            return operation(*inputs)
        first, second = (value.item() if isinstance(value, np.generic) else value for value in inputs)
        if type(first) in PLAIN and type(second) in PLAIN:
            swapped = ufunc in COMMUTATIVE and not isinstance(first, (Tensor, np.ndarray))
            return operation(second, first) if swapped else operation(first, second)
    outs = kwargs.get("out", ())
    if not all(type(value) in PLAIN or isinstance(value, OPERANDS) for value in (*inputs, *outs) if value is not None):
        return NotImplemented
    return METHODS[method](ufunc, inputs, kwargs)


def _called(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`np.add(a, b, out=..., where=..., dtype=...)`."""
    out, where, dtype = (
        kwargs.pop(name, default) for name, default in (("out", None), ("where", True), ("dtype", None))
    )
    refuse_rest(ufunc, "__call__", {} if ufunc.signature else kwargs)
    operation = operation_of(ufunc)
    operands = [as_type(value, dtype) for value in inputs] if dtype is not None else _operands(inputs)
    result = operation(*operands, **kwargs)
    if where is not True:
        if out is None or out[0] is None or ufunc.nout != 1:
            raise unsupported(f"{name_of(ufunc)}: `where` without `out` leaves values undefined", "torch.where")
        result = torch.where(lift(where), result, lift(out[0]))
    return result if out is None else written(out, result, name_of(ufunc))


def _operands(inputs: tuple[Any, ...]) -> list[Any]:
    """The operands as operations take them: numbers stay numbers, as they do not decide the dtype."""
    inputs = tuple(value.item() if isinstance(value, np.generic) else value for value in inputs)
    numbers = (float, int, complex)
    if all(isinstance(value, numbers) for value in inputs):  # only `out` is a tensor
        return [lift(value) for value in inputs]
    if not any(isinstance(value, (list, tuple)) for value in inputs):
        return [value if isinstance(value, numbers) else lift(value) for value in inputs]
    return beside(*inputs)


def _reduced(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`np.add.reduce(x)`: along the first axis, unless told otherwise."""
    return _along(REDUCE, "reduce", ufunc, inputs, kwargs)


def _accumulated(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return _along(ACCUMULATE, "accumulate", ufunc, inputs, kwargs)


def _along(
    table: dict[np.ufunc, Function], method: str, ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    if ufunc not in table:
        raise _unsupported_method(ufunc, method)
    out = kwargs.pop("out", None)
    axis = kwargs.pop("axis", 0)
    result = table[ufunc](lift(inputs[0]), axis, **kwargs)
    return result if out is None else written(out, result, f"{name_of(ufunc)}.{method}")


def _outer(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Every element of the first with every element of the second."""
    first, second = beside(*inputs)
    spread = first.reshape(tuple(first.shape) + (1,) * second.ndim)
    return _called(ufunc, (spread, second), kwargs)


def _at(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    way_out = "x.index_put_(indices, values, accumulate=True)" if ufunc is np.add else "x.index_put_(indices, values)"
    raise unsupported(f"{name_of(ufunc)}.at is not there for tensors", way_out)


def _reduced_at(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    raise _unsupported_method(ufunc, "reduceat")


METHODS: dict[str, Function] = {
    "__call__": _called, "reduce": _reduced, "accumulate": _accumulated, "outer": _outer, "at": _at,
    "reduceat": _reduced_at,
}  # fmt: skip


def operation_of(ufunc: np.ufunc) -> Function:
    """The operation that a ufunc stands for, found once."""
    operation = READY.get(ufunc)
    if operation is None:
        path = PATHS.get(ufunc) or _special(ufunc)
        found = None if path is None else known(path)
        if found is None:
            raise unsupported(f"{name_of(ufunc)} is not there for tensors")
        operation = READY[ufunc] = found if hasattr(found, "primitive") else _lifting(found)
    return operation


def _special(ufunc: np.ufunc) -> str | None:
    """The path of one of SciPy's special functions; who calls one has loaded SciPy."""
    scipy = sys.modules.get("scipy.special")
    name = ufunc.__name__
    return f"special.{name}" if name in SPECIAL.split() and getattr(scipy, name, None) is ufunc else None


def _lifting(operation: Function) -> Function:
    """An operation that is composed of others and wants tensors where a row takes arrays too."""

    def called(*operands: Any) -> Any:
        return operation(*(lift(value) if isinstance(value, np.ndarray) else value for value in operands))

    return called


def refuse_rest(ufunc: np.ufunc, method: str, kwargs: dict[str, Any]) -> None:
    """Refuse arguments that only NumPy knows; its defaults are as good as none."""
    defaults = {"casting": "same_kind", "order": "K", "subok": True}
    for name, value in kwargs.items():
        if name not in defaults or defaults[name] != value:
            suffix = "" if method == "__call__" else f".{method}"
            raise unsupported(f"{name_of(ufunc)}{suffix}: argument {name!r} is not there for tensors")


def _unsupported_method(ufunc: np.ufunc, method: str) -> TypeError:
    return unsupported(f"{name_of(ufunc)}.{method} is not there for tensors")


def name_of(ufunc: np.ufunc) -> str:
    """How users write a ufunc, as far as it is NumPy's.

    >>> name_of(np.add)
    'np.add'
    """
    name: str = ufunc.__name__
    return f"np.{name}" if getattr(np, name, None) is ufunc else name
