"""Parameters and buffers: tensors that a module knows by name."""

import copy
from collections.abc import Callable
from typing import Any

from pellucid.core.departures import departed
from pellucid.core.homes import known
from pellucid.core.provenance import here
from pellucid.core.tensor import Tensor
from pellucid.core.views import current_node
from pellucid.errors import explain
from pellucid.interop.subclasses import NOT_ASKED
from pellucid.ops.create import empty

__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "UninitializedTensorMixin",
    "is_lazy",
]


class _Named(type):
    """`isinstance(x, Buffer)` is true of a plain tensor that is marked as one, as PyTorch has it."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return super().__instancecheck__(instance) or (
            isinstance(instance, Tensor) and bool(instance.__dict__.get(f"_is_{cls.__name__.lower()}"))
        )


def _sharing(cls: type[Tensor], data: Any) -> Tensor:
    """A new tensor of a class over the memory of another tensor."""
    source = empty(0) if data is None else data
    if not isinstance(source, Tensor):
        raise TypeError(f"cannot assign '{type(data).__name__}' object: a {cls.__name__} holds a torch.Tensor")
    made: Tensor = object.__new__(cls)
    made.array, made.node, made._grad, made.window, made.cut = source.array, None, None, None, None
    node = current_node(source)
    made.cut = None if node is None else departed(cls.__name__, (node,))
    return made


class Parameter(Tensor, metaclass=_Named):
    """A tensor that a module learns: assigned to an attribute, it appears in `module.parameters()`.

    >>> import pellucid as torch
    >>> torch.nn.Parameter(torch.zeros(2))
    Parameter containing:
    tensor([0., 0.], requires_grad=True)
    """

    __torch_function__ = NOT_ASKED  # results of operations on a parameter are plain tensors

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> "Parameter":
        made = _sharing(cls, data)
        if requires_grad:
            made.requires_grad_(requires_grad)
        return made  # type: ignore[return-value]

    def __init__(self, data: Any = None, requires_grad: bool = True) -> None:
        """Everything is done by __new__: a parameter shares its tensor's memory."""

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"

    def __deepcopy__(self, memo: dict[int, Any]) -> "Parameter":
        if id(self) not in memo:
            made = type(self)(self.data.clone(), self.requires_grad)
            made.__dict__.update(copy.deepcopy(self.__dict__, memo))
            memo[id(self)] = made
        return memo[id(self)]  # type: ignore[no-any-return]


known(Parameter, "torch.nn.parameter")


class Buffer(Tensor, metaclass=_Named):
    """A tensor that a module keeps but does not learn; `persistent` decides whether it is saved.

    >>> import pellucid as torch
    >>> module = torch.nn.Module()
    >>> module.steps = torch.nn.Buffer(torch.tensor(3))
    >>> list(module.state_dict())
    ['steps']
    """

    __torch_function__ = NOT_ASKED

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Any:
        source = empty(0) if data is None else data
        made = source.detach().requires_grad_(source.requires_grad)
        made.persistent = persistent
        made._is_buffer = True
        return made


LAZY = "a lazy module learns its shapes from the first input it sees", "run the module once on an input, then look"


def _refuse(name: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise ValueError(explain(f"Attempted to use an uninitialized parameter in {name}", str(here()), *LAZY))

    return refuse


class UninitializedTensorMixin:
    """A place for a tensor whose shape the first input will tell."""

    cls_to_become: type[Tensor]

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Give the tensor its shape; its values are for the caller to set."""
        fresh = empty(shape, dtype=dtype or self.dtype)  # type: ignore[attr-defined]
        become(self, self.cls_to_become, fresh.array)

    @property
    def shape(self) -> Any:
        raise RuntimeError(
            explain("Can't access the shape of an uninitialized parameter or buffer", str(here()), *LAZY)
        )

    # What is counted or computed of all parameters: an empty tensor would give a silent zero.
    numel, nelement, detach, clone = map(_refuse, ("numel", "nelement", "detach", "clone"))
    sum, mean, norm, pow, square, abs = map(_refuse, ("sum", "mean", "norm", "pow", "square", "abs"))

    def share_memory_(self) -> Any:
        raise RuntimeError(
            explain("Can't share memory on an uninitialized parameter or buffer", str(here()), *LAZY)
        )  # fmt: skip

    __add__ = __radd__ = __sub__ = __mul__ = __rmul__ = __matmul__ = __pow__ = _refuse("arithmetic")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter without a shape yet.

    >>> import pellucid as torch
    >>> weight = torch.nn.UninitializedParameter()
    >>> weight
    <UninitializedParameter>
    >>> weight.materialize((2, 3))
    >>> weight.shape, type(weight).__name__
    (torch.Size([2, 3]), 'Parameter')
    """

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> "UninitializedParameter":
        return super().__new__(cls, empty(0, dtype=dtype), requires_grad)  # type: ignore[return-value]

    def __init__(self, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> None:
        """Everything is done by __new__."""

    def __deepcopy__(self, memo: dict[int, Any]) -> "UninitializedParameter":
        return memo.setdefault(id(self), type(self)(self.requires_grad, dtype=self.dtype))  # type: ignore[no-any-return]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return UninitializedParameter, (self.requires_grad, None, self.dtype)


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer without a shape yet.

    >>> import pellucid as torch
    >>> mean = torch.nn.UninitializedBuffer()
    >>> mean.materialize((4,))
    >>> mean.shape, mean.requires_grad
    (torch.Size([4]), False)
    """

    cls_to_become = Tensor
    __torch_function__ = NOT_ASKED

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> Any:
        made: Any = _sharing(cls, empty(0, dtype=dtype))
        made.persistent = persistent
        made._is_buffer = True
        return made

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Everything is done by __new__."""


def become(tensor: Any, kind: type[Tensor], array: Any) -> None:
    """Make a parameter or buffer in place one of another kind, with other memory."""
    needs = tensor.requires_grad
    tensor.requires_grad_(False)
    tensor.__class__, tensor.array = kind, array
    tensor.requires_grad_(needs)


def is_lazy(param: Any) -> bool:
    """Whether a parameter or buffer has no shape yet.

    >>> import pellucid as torch
    >>> is_lazy(torch.nn.UninitializedParameter())
    True
    """
    return isinstance(param, UninitializedTensorMixin)
