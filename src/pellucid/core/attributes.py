"""What a tensor answers about itself: its data, its graph, its gradient, and the ways out to Python and NumPy."""

import copy
import warnings
import weakref
from collections.abc import Callable
from numbers import Number
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core import aliasing, backward, modes
from pellucid.core.departures import FEW, MANY, OUTWARD, cleared, departed, departed_further, joins
from pellucid.core.exposure import expose
from pellucid.core.flags import Truth, no_flag, received
from pellucid.core.homes import found, known, lasting
from pellucid.core.kinds import Kind, plain
from pellucid.core.meta import Meta
from pellucid.core.modes import Mode
from pellucid.core.packing import PACKING
from pellucid.core.provenance import here
from pellucid.core.tensor import Cut, Handle, Leaf, Node, Tensor, extra_of, nobody, step_over_pick, wrap
from pellucid.core.views import current_array, current_node, leave, receiving_node
from pellucid.errors import explain


def attribute(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function a method of Tensor."""
    setattr(Tensor, function.__name__, function)
    return function


def readable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function a read-only property of Tensor."""
    setattr(Tensor, function.__name__, property(function))
    return function


for _class in (Tensor, dtypes.Size, dtypes.device, dtypes.dtype):
    known(_class, "torch")

# --- shape and type


@readable
def shape(self: Tensor) -> dtypes.Size:
    """The size of every dimension."""
    return dtypes.trusted_size(self.array.shape)


@readable
def ndim(self: Tensor) -> int:
    """The number of dimensions."""
    return len(self.array.shape)


@readable
def dtype(self: Tensor) -> dtypes.dtype:
    """The type of the elements."""
    return dtypes.from_numpy_dtype(self.array.dtype)


@readable
def device(self: Tensor) -> dtypes.device:
    """Where the tensor lives: on the CPU, unless it is a meta tensor, which lives nowhere."""
    return dtypes.META if isinstance(self.array, Meta) else dtypes.CPU


@readable
def layout(self: Tensor) -> Any:
    """How the elements are stored: always strided."""
    return dtypes.strided


# --- the graph


@readable
def grad_fn(self: Tensor) -> Node | None:
    """The node that made this tensor; None for a leaf.

    >>> import pellucid as torch
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> (x * 2).grad_fn.name(), x.grad_fn
    ('MulBackward0', None)
    """
    node = current_node(self)
    return None if isinstance(node, Leaf) else step_over_pick(node)[0]


@readable
def is_leaf(self: Tensor) -> bool:
    """Whether the tensor stands at the end of the graph: made by the user, or not requiring grad."""
    node = current_node(self)
    return node is None or isinstance(node, Leaf)


def _get_requires_grad(self: Tensor) -> bool:
    return current_node(self) is not None


def _set_requires_grad(self: Tensor, wanted: bool) -> None:
    if not isinstance(wanted, bool):
        raise RuntimeError("requires_grad must be a bool")
    requires_grad_(self, wanted)


setattr(Tensor, "requires_grad", property(_get_requires_grad, _set_requires_grad))  # noqa: B010 (mypy knows no attributes that come later)


@attribute
def requires_grad_(self: Tensor, requires_grad: bool = True) -> Tensor:
    """Ask for the gradient of this tensor (or no longer), and return it.

    >>> import pellucid
    >>> pellucid.zeros(2).requires_grad_()
    tensor([0., 0.], requires_grad=True)
    """
    if requires_grad is not True and requires_grad is not False:
        raise no_flag("requires_grad_", "requires_grad", requires_grad, 1)
    node = receiving_node(self)
    if requires_grad and node is None:
        _check_differentiable(self)
        joins(self.cut)  # a value that was cut off starts a graph of its own
        self.node = _thawed(self) or Leaf(self, here())
        self.cut = None
    elif not requires_grad and node is not None:
        if not isinstance(node, Leaf):
            raise RuntimeError(
                explain(
                    "you can only change requires_grad flags of leaf variables",
                    str(here()),
                    f"this tensor was computed by {node.name()} at {node.place}",
                    "use detach() to get a tensor without history",
                )
            )
        self.node = None
        self.cut = Cut("requires_grad_(False)", here(), frozen=True)
        _freeze(node, self.cut)
    return self


def _freeze(leaf: Leaf, cut: Cut) -> None:
    """Let graphs of before fill no gradient of a leaf until it is thawed."""
    cut.leaf, leaf.tensor = leaf, nobody


def _thawed(tensor: Tensor) -> Leaf | None:
    """The leaf of a tensor that was frozen: what was computed before may fill its gradient again."""
    leaf = tensor.cut.leaf if isinstance(tensor.cut, Cut) else None
    if leaf is None or leaf.shape != tuple(tensor.array.shape):
        return None
    leaf.tensor = weakref.ref(tensor)
    return leaf


def _check_differentiable(tensor: Tensor) -> None:
    if np.dtype(tensor.array.dtype).kind in "biu":
        raise RuntimeError(
            explain(
                "Only Tensors of floating point and complex dtype can require gradients",
                str(here()),
                f"only Tensors of floating point dtype can require gradients, this one holds {tensor.dtype}",
                try_="convert it first, e.g. x.float()",
            )
        )
    if isinstance(tensor.cut, Mode) and tensor.cut.inference and not modes.current().inference:
        raise RuntimeError(
            explain(
                "setting requires_grad=True on an inference tensor is not allowed",
                str(here()),
                try_="clone() it",
            )
        )


@attribute
def is_inference(self: Tensor) -> bool:
    """Whether the tensor was made under inference_mode."""
    return isinstance(self.cut, Mode) and self.cut.inference


def _get_grad(self: Tensor) -> Tensor | None:
    """What backward has added up for this leaf; None before, and after `x.grad = None`.

    >>> import pellucid as torch
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> (x * x).backward()
    >>> x.grad
    tensor(6.)
    >>> (2 * x).backward()  # is added: 6 + 2
    >>> x.grad
    tensor(8.)
    """
    node = None if self._grad is not None or isinstance(self.node, Leaf) else self.node
    if node is not None and not retains_grad_of(self):
        warnings.warn(
            "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute "
            "won't be populated during autograd.backward(). It was computed by "
            f"{node.name()} at {node.place.text}. If you want its gradient, call .retain_grad() on it "
            "before backward; if you meant a leaf, build it with requires_grad_() as the last step.",
            UserWarning,
            stacklevel=2,
        )
    return self._grad


def _set_grad(self: Tensor, grad: Tensor | None) -> None:
    if grad is not None:
        if not isinstance(grad, Tensor):
            raise TypeError(f"assigned grad expected to be a Tensor or None but got grad of type {type(grad).__name__}")
        if grad is self:
            raise RuntimeError("can't assign Variable as its own grad")
        if tuple(grad.array.shape) != tuple(self.array.shape):
            raise RuntimeError(
                explain(
                    f"attempting to assign a gradient of size '{list(grad.array.shape)}' to a tensor of size "
                    f"'{list(self.array.shape)}'. Please ensure that the gradient and the tensor are the same size",
                    str(here()),
                )
            )
        wanted = backward.gradient_dtype(self)
        if wanted is not None and grad.array.dtype != wanted:
            raise RuntimeError(
                explain(
                    f"attempting to assign a gradient with dtype '{grad.dtype}' to a tensor with grad_dtype "
                    f"'{dtypes.from_numpy_dtype(wanted)}'",
                    str(here()),
                    "a gradient has its tensor's dtype, unless x.grad_dtype says otherwise",
                )
            )
    elif self._grad is not None:
        cleared(self, "grad = None")
    mode = modes.MODE.get()
    if mode is not None and mode.tracer is not None:
        mode.tracer.grad_assigned(self)
    self._grad = grad


def _delete_grad(self: Tensor) -> None:
    _set_grad(self, None)


setattr(Tensor, "grad", property(_get_grad, _set_grad, _delete_grad))  # noqa: B010 (mypy knows no attributes that come later)


def _get_grad_dtype(self: Tensor) -> dtypes.dtype | None:
    """The dtype that the gradient of a leaf has: its own, unless another one was asked for; None: as it arrives.

    >>> import pellucid as torch
    >>> x = torch.ones(2, dtype=torch.bfloat16, requires_grad=True)
    >>> x.grad_dtype
    torch.bfloat16
    >>> x.grad_dtype = torch.float32
    >>> (2 * x).sum().backward()
    >>> x.grad
    tensor([2., 2.])
    """
    if self.node is not None and not isinstance(self.node, Leaf):
        raise RuntimeError("grad_dtype can only be accessed on leaf tensors.")
    wanted = backward.gradient_dtype(self)
    return None if wanted is None else dtypes.from_numpy_dtype(wanted)


def _set_grad_dtype(self: Tensor, wanted: dtypes.dtype | None) -> None:
    if not (wanted is None or isinstance(wanted, dtypes.dtype)):
        raise RuntimeError(f"grad_dtype must be a torch.dtype or None, but got {type(wanted).__name__}")
    if self.node is not None and not isinstance(self.node, Leaf):
        raise RuntimeError("grad_dtype can only be set on leaf tensors.")
    if wanted is _get_grad_dtype(self):
        return
    if wanted is not None and not (wanted.is_floating_point or wanted.is_complex):
        raise RuntimeError(f"grad_dtype must be a floating-point or complex dtype, but got {wanted}")
    if self.node is None:
        raise NotImplementedError(
            explain("grad_dtype of a tensor that does not require grad", str(here()), try_="requires_grad_() it first")
        )
    if wanted is not None and self._grad is not None and self._grad.dtype is not wanted:
        raise RuntimeError(
            explain(
                f"Cannot set grad_dtype to '{wanted}' because there is already a gradient with dtype "
                f"'{self._grad.dtype}'",
                str(here()),
                try_="clear it first: x.grad = None",
            )
        )
    extra_of(self.node).gradient_dtype = None if wanted is None else wanted.numpy


setattr(Tensor, "grad_dtype", property(_get_grad_dtype, _set_grad_dtype))  # noqa: B010 (mypy knows no attributes that come later)


def retains_grad_of(tensor: Tensor) -> bool:
    """Whether retain_grad was asked for a tensor that is not a leaf."""
    node = tensor.node
    return node is not None and not isinstance(node, Leaf) and node.extra is not None and node.extra.retain is not None


@readable
def output_nr(self: Tensor) -> int:
    """Which of the results of its node a tensor is.

    >>> import pellucid as torch
    >>> [part.output_nr for part in torch.ones(4, requires_grad=True).split(2)]
    [0, 1]
    """
    return step_over_pick(current_node(self))[1]


@readable
def name(self: Tensor) -> None:
    """None: tensors have no names.

    >>> import pellucid as torch
    >>> torch.ones(2).name is None
    True
    """


@readable
def retains_grad(self: Tensor) -> bool:
    """Whether a tensor that is not a leaf keeps its gradient."""
    return retains_grad_of(self)


@attribute
def retain_grad(self: Tensor) -> None:
    """Keep the gradient of this tensor although it is not a leaf.

    >>> import pellucid
    >>> x = pellucid.ones(2, requires_grad=True)
    >>> y = x * 3
    >>> y.retain_grad()
    >>> y.sum().backward()
    >>> y.grad
    tensor([1., 1.])
    """
    node = current_node(self)
    if node is None:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if not isinstance(node, Leaf):
        backward.retain(node, self)


@attribute
def register_hook(self: Tensor, hook: Callable[..., Any]) -> Handle:
    """Call `hook(grad)` when the gradient of this tensor is known; what it returns replaces the gradient.

    >>> import pellucid
    >>> x = pellucid.ones(2, requires_grad=True)
    >>> handle = x.register_hook(lambda grad: grad * 2)
    >>> x.sum().backward()
    >>> x.grad
    tensor([2., 2.])
    """
    node = current_node(self)
    if node is None:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    return extra_of(node).on_gradient.add(hook)


@attribute
def register_post_accumulate_grad_hook(self: Tensor, hook: Callable[..., Any]) -> Handle:
    """Call `hook(tensor)` once a backward has written the tensor's `.grad`; leaves only.

    >>> import pellucid as torch
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> handle = x.register_post_accumulate_grad_hook(lambda leaf: print("now", leaf.grad))
    >>> (x * x).backward()
    now tensor(6.)
    """
    node = current_node(self)
    if not isinstance(node, Leaf):
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    return extra_of(node).post_accumulate.add(hook)


@received
def _backward(
    self: Tensor,
    gradient: Any = None,
    retain_graph: Truth = None,
    create_graph: Truth = False,
    inputs: Any = None,
) -> None:
    """Add the gradient of this tensor to the `.grad` of every leaf it depends on.

    >>> import pellucid
    >>> x = pellucid.tensor(3.0, requires_grad=True)
    >>> (x * x + x).backward()
    >>> x.grad
    tensor(7.)
    """
    if isinstance(inputs, Tensor):
        inputs = [inputs]
    elif inputs is not None:
        inputs = tuple(inputs.values() if isinstance(inputs, dict) else inputs)
    backward.backward([self], [gradient], retain_graph, create_graph, inputs)


_backward.__name__ = "backward"
setattr(Tensor, "backward", _backward)  # noqa: B010 (mypy knows no attributes that come later)


# --- ways out of the graph


def depart(tensor: Tensor, how: str, limit: int = MANY) -> Cut | None:
    """Note that a value leaves the graph here; the ledger lets errors and `why` name the line."""
    lost = tensor.window is not None and tensor.window.forbids  # its history may be gone, its values are not
    node = tensor.node if lost else current_node(tensor)
    if node is not None:
        return departed(how, (node,), limit)
    cut = tensor.cut
    if type(cut) is Cut and how in OUTWARD and not cut.frozen:
        departed_further(how, cut)
    return cut  # type: ignore[no-any-return]


@attribute
def detach(self: Tensor) -> Tensor:
    """The same memory without history.

    >>> import pellucid
    >>> pellucid.ones(1, requires_grad=True).detach().requires_grad
    False
    """
    return _without_history(self, "detach")


def _without_history(tensor: Tensor, by: str) -> Tensor:
    """The same memory without history, be it backward's or a tangent's.

    What a hook packs has no history: there a tangent is part of what backward will ask for again.
    """
    array = current_array(tensor)
    if isinstance(array, Kind) and PACKING.get() is None:
        array = array.detached()
    return wrap(array, None, depart(tensor, by))


@attribute
def detach_(self: Tensor) -> Tensor:
    """Take the history away from this very tensor."""
    if self.window is not None:
        raise RuntimeError("Can't detach views in-place. Use detach() instead.")
    cut = depart(self, "detach_")
    if isinstance(self.array, Kind):
        self.array = self.array.detached()
    if isinstance(self.node, Leaf) and type(cut) is Cut:
        _freeze(self.node, cut)
    self.node, self.cut = None, cut
    return self


def _get_data(self: Tensor) -> Tensor:
    out = _without_history(self, "data")
    out._aside = True
    return out


def _set_data(self: Tensor, value: Tensor) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"data must be set to a Tensor, not {type(value).__name__}")
    if current_node(self) is not None and np.dtype(value.array.dtype).kind in "biu":
        raise RuntimeError(
            explain(
                f"data of a tensor that requires gradients must be floating point or complex dtype, not {value.dtype}",
                str(here()),
                try_="convert it first, e.g. value.float()",
            )
        )
    before, given = current_array(self), current_array(value)
    if _same_memory(before, given):
        return
    if self.window is None:
        leave(self)
    self.node, self.window = current_node(self), None  # a view that is given other memory is one no longer
    given = given.detached() if isinstance(given, Kind) else given
    self.array = before.given(given) if isinstance(before, Kind) else given
    if isinstance(self.node, Leaf):
        self.node.shape = tuple(self.array.shape)


def _same_memory(a: Any, b: Any) -> bool:
    """Whether two arrays are one: then neither history nor what looks at it need know."""
    if type(a) is not np.ndarray or type(b) is not np.ndarray or a.dtype != b.dtype:
        return False
    return a.ctypes.data == b.ctypes.data and a.shape == b.shape and a.strides == b.strides and a.size > 0


setattr(Tensor, "data", property(_get_data, _set_data))  # noqa: B010 (mypy knows no attributes that come later)


def concrete(tensor: Tensor, what: str) -> np.ndarray:
    """The ndarray behind a tensor, for code that leaves the graph."""
    array = current_array(tensor)
    tracer = modes.current().tracer
    if tracer is not None:
        return tracer.concrete(array, what)  # type: ignore[no-any-return]
    return array.concrete(what) if isinstance(array, Kind) else array


@attribute
def numpy(self: Tensor, *, force: bool = False) -> np.ndarray:
    """The tensor as a NumPy array that shares its memory.

    >>> import pellucid
    >>> pellucid.ones(2).numpy()
    array([1., 1.], dtype=float32)
    """
    if not force and current_node(self) is not None and modes.current().grad:
        raise RuntimeError(
            explain(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
                str(here()),
                "a NumPy array cannot carry the graph along",
            )
        )
    if force or self.cut is not None:
        depart(self, "numpy")
    array = concrete(self, "numpy()")
    expose(array)
    return array.view() if array.flags.owndata or array.base is not None else array


@attribute
def __array__(self: Tensor, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    array = numpy(self)
    return np.array(array, dtype=dtype, copy=copy)


@attribute
def item(self: Tensor) -> Any:
    """The value of a tensor with one element, as a Python number.

    >>> import pellucid
    >>> pellucid.tensor(2.5).item()
    2.5
    """
    array = concrete(self, "item()")
    if array.size != 1:
        raise RuntimeError(
            explain(
                f"a Tensor with {array.size} elements cannot be converted to Scalar",
                str(here()),
                try_="tolist()",
            )
        )
    if self.node is not None or self.cut is not None:
        depart(self, "item", FEW)
    return array.item() if array.dtype.kind != "V" else float(array.reshape(()))


@attribute
def tolist(self: Tensor) -> Any:
    """The values as nested Python lists (a number for a 0-d tensor)."""
    if self.node is not None or self.cut is not None:
        depart(self, "tolist")
    array = concrete(self, "tolist()")
    return array.tolist()


def _number(self: Tensor, what: str) -> Any:
    array = concrete(self, what)
    if array.size != 1:
        raise {"bool()": RuntimeError, "index()": TypeError}.get(what, ValueError)(
            explain(
                "Boolean value of Tensor with more than one value is ambiguous"
                if what == "bool()"
                else f"{what}: only one element tensors can be converted to Python scalars",
                str(here()),
                f"only a tensor with one element has a value, this one has shape {tuple(array.shape)}",
                "use .any() or .all()" if what == "bool()" else "use .tolist(), or reduce it first",
            )
        )
    if (self.node is not None or self.cut is not None) and what != "bool()":
        depart(self, what, FEW)
    value = array.reshape(-1)[0]
    if array.dtype.kind == "c" and what in ("int()", "float()") and value.imag:
        raise RuntimeError(explain("value cannot be converted to a real number without overflow", str(here())))
    return value.real if array.dtype.kind == "c" and what in ("int()", "float()") else value


@attribute
def __bool__(self: Tensor) -> bool:
    if self.array.size == 0:
        raise RuntimeError(explain("Boolean value of Tensor with no values is ambiguous", str(here())))
    return bool(_number(self, "bool()"))


@attribute
def __float__(self: Tensor) -> float:
    return float(_number(self, "float()"))


@attribute
def __int__(self: Tensor) -> int:
    return int(_number(self, "int()"))


@attribute
def __complex__(self: Tensor) -> complex:
    return complex(_number(self, "complex()"))


@attribute
def __index__(self: Tensor) -> int:
    if np.dtype(self.array.dtype).kind not in "biu":
        raise TypeError("only integer tensors of a single element can be converted to an index")
    return int(_number(self, "index()"))


@attribute
def __len__(self: Tensor) -> int:
    if not self.array.shape:
        raise TypeError("len() of a 0-d tensor")
    return int(self.array.shape[0])


@attribute
def __contains__(self: Tensor, value: Any) -> bool:
    if not isinstance(value, (Tensor, Number, np.bool_)):
        raise RuntimeError(
            explain(
                f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(value)}",
                str(here()),
                try_="ask for a number, or for a tensor whose elements are compared with this one's",
            )
        )
    return bool((self == value).any())  # type: ignore[attr-defined]


setattr(Tensor, "__hash__", object.__hash__)  # noqa: B010 (by identity; written in Python it takes five times as long)


# --- printing, copying, pickling


@attribute
def __repr__(self: Tensor) -> str:
    from pellucid.printing import format_tensor  # the first one to be printed pays for loading it

    array = self.array
    if isinstance(array, Kind) and not isinstance(array, Meta):
        return repr(array)
    node = current_node(self)
    suffix = [] if node is None else ["requires_grad=True" if isinstance(node, Leaf) else f"grad_fn=<{node.name()}>"]
    if isinstance(array, Meta):
        return f"{self.shown_as}({', '.join([*array.described(), *suffix])})"
    return format_tensor(np.asarray(array), suffix, f"{self.shown_as}(")


@attribute
def __format__(self: Tensor, spec: str) -> str:
    if not self.array.shape and not isinstance(self.array, Kind):
        return format(concrete(self, "format()").item(), spec)
    return object.__format__(self, spec)


@attribute
def __deepcopy__(self: Tensor, memo: dict[int, Any]) -> Tensor:
    if id(self) in memo:
        return memo[id(self)]  # type: ignore[no-any-return]
    if not self.is_leaf:
        assert self.node is not None
        raise RuntimeError(
            explain(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol",
                str(here()),
                f"this one was computed by {self.node.name()} at {self.node.place}",
                "copy tensor.detach() instead",
            )
        )
    result = object.__new__(type(self))
    memo[id(self)] = result
    array = aliasing.deep_copy(self.array, self.window is not None, memo)
    _restore(result, array, self.node is not None, copy.deepcopy(self._grad, memo))
    result.__dict__.update(copy.deepcopy(self.__dict__, memo))
    return result


@attribute
def __reduce_ex__(self: Tensor, protocol: Any) -> Any:
    """The values, and whether gradients are wanted; of a computed tensor the history stays behind, as in PyTorch."""
    return _rebuild, (
        lasting(type(self)),
        np.ascontiguousarray(self.array).reshape(self.array.shape),
        self.node is not None,
        self.__dict__,
    )


def _rebuild(cls: Any, array: np.ndarray, requires_grad: bool, attributes: dict[str, Any]) -> Tensor:
    tensor: Tensor = object.__new__(found(cls))
    _restore(tensor, array.view(plain(array.dtype)), requires_grad, None)
    tensor.__dict__.update(attributes)
    return tensor


def _restore(tensor: Tensor, array: np.ndarray, requires_grad: bool, grad: Tensor | None) -> None:
    tensor.array, tensor.node, tensor._grad, tensor.window, tensor.cut = array, None, grad, None, None
    if requires_grad:
        tensor.node = Leaf(tensor, here())


# --- memory


@readable
def _version(self: Tensor) -> int:
    """How often the tensor's memory was written in place."""
    if self.is_inference():
        raise RuntimeError("Inference tensors do not track version counter: make the tensor outside inference_mode()")
    return aliasing.version_of(self.array)


@readable
def _base(self: Tensor) -> Tensor | None:
    """The tensor whose memory this one looks at."""
    return None if self.window is None else self.window.base


@attribute
def _is_view(self: Tensor) -> bool:
    return self.window is not None


__all__ = ["attribute", "readable"]
