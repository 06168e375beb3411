"""What a tensor is and is not: questions that scripts ask, and requests that need nothing here.

A tensor is dense and not quantised, and in main memory unless it is a meta tensor, so most answers are the same.
"""

from collections.abc import Callable
from numbers import Number
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core.attributes import attribute, concrete, readable
from pellucid.core.inplace import overwrite
from pellucid.core.kinds import plain
from pellucid.core.meta import Meta
from pellucid.core.tensor import Tensor, wrap
from pellucid.ops.arguments import refusal
from pellucid.ops.create import check_range

__all__ = [
    "get_default_device", "get_device", "is_inference", "is_nonzero", "result_type", "set_default_device",
    "set_default_tensor_type", "typename",
]  # fmt: skip

ALWAYS = dict.fromkeys(
    ("is_cuda", "is_mps", "is_quantized", "is_sparse", "is_sparse_csr", "is_xpu", "is_nested", "is_mkldnn",
     "is_ipu", "is_maia", "is_mtia", "is_vulkan", "is_xla"), False,
)  # fmt: skip


def _answer(name: str, value: bool) -> None:
    def question(self: Tensor) -> bool:
        return value

    question.__name__, question.__doc__ = name, f"{value}: a tensor is dense, plain and in main memory."
    readable(question)


for _name, _value in ALWAYS.items():
    _answer(_name, _value)


@readable
def is_meta(self: Tensor) -> bool:
    """Whether the tensor has a shape and no memory."""
    return isinstance(self.array, Meta)


@readable
def is_cpu(self: Tensor) -> bool:
    """Whether the tensor is in main memory."""
    return not isinstance(self.array, Meta)


@attribute
def get_device(self: Tensor) -> int:
    """-1: the tensor is on the CPU.

    >>> import pellucid as torch
    >>> torch.ones(2).get_device()
    -1
    """
    return -1


@attribute
def record_stream(self: Tensor, stream: Any) -> None:
    """Nothing: there are no streams."""


@attribute
def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether two tensors are the same view of the same memory.

    >>> import pellucid as torch
    >>> a = torch.zeros(2, 3)
    >>> a.is_set_to(a.view(2, 3)), a.is_set_to(a.t())
    (True, False)
    """
    one, other = self.array.__array_interface__, tensor.array.__array_interface__
    return all(one[key] == other[key] for key in ("data", "shape", "strides", "typestr"))


@attribute
def __reversed__(self: Tensor) -> Tensor:
    """The tensor with the order of its first dimension turned round."""
    return self.flip(0) if self.ndim else self  # type: ignore[attr-defined, no-any-return]


@attribute
def __delitem__(self: Tensor, index: Any) -> None:
    """Refused: a tensor keeps its elements."""
    raise TypeError("Tensor does not support deleting items")


@attribute
def is_pinned(self: Tensor, device: Any = None) -> bool:
    """False: memory is not pinned for a device that is not there."""
    return False


@attribute
def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """The tensor itself."""
    return self


@attribute
def to_dense(self: Tensor, dtype: Any = None, **options: Any) -> Tensor:
    """The tensor itself, which is dense."""
    return self if dtype is None else self.to(dtype)  # type: ignore[attr-defined, no-any-return]


@attribute
def apply_(self: Tensor, function: Callable[[Any], Any]) -> Tensor:
    """Replace every element by a Python function of it; slow, for small tensors.

    >>> import pellucid as torch
    >>> torch.tensor([1.0, 2.0]).apply_(lambda x: x * 10)
    tensor([10., 20.])
    """
    return mapped(self, (), function, "apply_")


@attribute
def map_(self: Tensor, other: Tensor, function: Callable[[Any, Any], Any]) -> Tensor:
    """Replace every element by a Python function of it and the other tensor's; slow, for small tensors.

    >>> import pellucid as torch
    >>> torch.tensor([1.0, 5.0]).map_(torch.tensor([3.0, 2.0]), lambda a, b: a if a > b else -b)
    tensor([-3.,  5.])
    """
    return mapped(self, (other,), function, "map_")


def mapped(target: Tensor, others: tuple[Tensor, ...], function: Callable[..., Any], name: str) -> Tensor:
    """Write a Python function of the elements of a tensor, and of the others' there, to its place."""
    shape, kind = target.array.shape, target.array.dtype
    for each in (target, *others):
        if each.requires_grad:  # type: ignore[attr-defined]
            what = f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead."
            raise refusal(RuntimeError, what, "no derivative of a Python function is known")
        if each.dtype != target.dtype:
            raise TypeError(f"{name}: expected a tensor of {target.dtype} (got {each.dtype})")
    columns = [each.expand(shape) for each in others]  # type: ignore[attr-defined]
    elements = [concrete(each, name).reshape(-1).tolist() for each in (target, *columns)]
    values = [function(*each) for each in zip(*elements, strict=True)]
    strange = [type(value).__name__ for value in values if not isinstance(value, (Number, Tensor))]
    if strange:
        raise TypeError(f"{name}: the function must return a number, not {strange[0]}")
    return overwrite(target, wrap(np.array(values, kind).reshape(shape)), name)


@attribute
def fill_diagonal_(self: Tensor, fill_value: float, wrap: bool = False) -> Tensor:
    """Write a value onto the diagonal.

    >>> import pellucid as torch
    >>> torch.zeros(2, 2).fill_diagonal_(3)
    tensor([[3., 0.],
            [0., 3.]])
    """
    if self.array.ndim < 2:
        raise refusal(RuntimeError, "dimensions must larger than 1")
    if self.array.ndim > 2 and len(set(self.array.shape)) != 1:
        raise refusal(RuntimeError, "all dimensions of input must be of equal length")
    check_range(fill_value, plain(self.array.dtype))
    rows, columns = self.array.shape[0], self.array.shape[-1]
    step, count = columns + 1, min(rows, columns)
    if self.array.ndim == 2 and wrap and rows > columns:
        count = -(-rows * columns // step)
    for i in range(count):
        place = divmod(i * step, columns) if self.array.ndim == 2 else (i,) * self.array.ndim
        self[place] = fill_value  # type: ignore[index]
    return self


def is_nonzero(input: Tensor) -> bool:
    """Whether the only element is not zero.

    >>> import pellucid as torch
    >>> torch.is_nonzero(torch.tensor([0.0])), torch.is_nonzero(torch.tensor(-3.0))
    (False, True)
    """
    if input.array.size != 1:
        what = "more than one value" if input.array.size else "no values"
        raise refusal(RuntimeError, f"Boolean value of Tensor with {what} is ambiguous")
    return bool(input)


attribute(is_nonzero)


def is_inference(input: Tensor) -> bool:
    """Whether a tensor was made under inference_mode.

    >>> import pellucid as torch
    >>> with torch.inference_mode():
    ...     x = torch.ones(2)
    >>> torch.is_inference(x), torch.is_inference(torch.ones(2))
    (True, False)
    """
    return bool(input.is_inference())  # type: ignore[attr-defined]


def result_type(tensor: Any, other: Any) -> Any:
    """The dtype of an operation on two tensors or numbers.

    >>> import pellucid as torch
    >>> torch.result_type(torch.tensor([1]), 1.0)
    torch.float32
    """
    operands = [value.array if isinstance(value, Tensor) else value for value in (tensor, other)]
    return dtypes.from_numpy_dtype(dtypes.promote(operands))


def typename(obj: Any) -> str:
    """The name of a tensor's type, or of anything's class.

    >>> import pellucid as torch
    >>> torch.typename(torch.ones(1))
    'torch.FloatTensor'
    """
    if isinstance(obj, Tensor):
        return str(obj.type())  # type: ignore[attr-defined]
    named = obj if hasattr(obj, "__qualname__") else type(obj)  # a class or a function has a name of its own
    home = getattr(named, "__module__", None) or "builtins"
    return named.__qualname__ if home == "builtins" else f"{home}.{named.__qualname__}"  # type: ignore[no-any-return]


def set_default_tensor_type(t: Any, /) -> None:
    """Choose the default dtype by the old name of a type of tensor, or by the type.

    >>> import pellucid as torch
    >>> torch.set_default_tensor_type("torch.DoubleTensor")
    >>> torch.ones(1).dtype
    torch.float64
    >>> torch.set_default_tensor_type(torch.FloatTensor)
    """
    name = t if isinstance(t, str) else getattr(t, "__name__", str(t))
    kind = TYPES.get(name.rpartition(".")[2])
    if kind is None or "cuda" in str(t):
        raise TypeError(f"invalid type object: only the CPU's floating-point types are supported, not {t!r}")
    dtypes.set_default_dtype(kind)


TYPES = {
    "FloatTensor": dtypes.float32, "DoubleTensor": dtypes.float64, "HalfTensor": dtypes.float16,
    "BFloat16Tensor": dtypes.bfloat16,
}  # fmt: skip


def set_default_device(device: Any) -> None:
    """Choose where new tensors go: the CPU, or `meta` for tensors without memory; None is the CPU.

    >>> import pellucid as torch
    >>> torch.set_default_device("cpu")
    >>> torch.get_default_device()
    device(type='cpu')
    """
    dtypes.CHOSEN.set(() if device is None else (dtypes.check_device(device),))


def get_default_device() -> Any:
    """Where new tensors go."""
    return dtypes.chosen_device()
