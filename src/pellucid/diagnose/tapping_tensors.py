"""Where the trace listens to tensors: ways out of the graph, new tensors, backward(), flags, random numbers."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import pellucid
from pellucid.core.provenance import Place, getframe, outside
from pellucid.core.tensor import Tensor
from pellucid.diagnose.tapping import Wrapper, copies, of_ours, route_here, tensors_in, user_place
from pellucid.diagnose.trace import Trace
from pellucid.distributions import Distribution
from pellucid.nn.parameter import Parameter
from pellucid.ops.construct import TypedTensor

WAYS_OUT = ("detach", "item", "numpy", "tolist", "__float__", "__int__", "__array__")
CONSTRUCTORS = ("tensor", "as_tensor", "asarray", "from_numpy")
FACTORIES = ("zeros", "ones", "full", "rand", "randn", "zeros_like", "ones_like", "full_like", "rand_like",
             "randn_like", "empty", "empty_like", "normal", "linspace", "logspace", "arange", "eye")  # fmt: skip
NEW = ("new_zeros", "new_ones", "new_full", "new_empty", "new_tensor")
SAMPLERS = ("multinomial", "poisson")


def tensor_instruments(trace: Trace) -> Iterator[tuple[Any, str, Wrapper]]:
    for name in WAYS_OUT:
        yield Tensor, name, functools.partial(_way_out, trace, name.strip("_"))
    yield Tensor, "detach_", functools.partial(_detaching, trace)
    yield Tensor, "data", functools.partial(_data, trace)
    yield Tensor, "grad", functools.partial(_grad, trace)
    yield Tensor, "zero_", functools.partial(_zeroing, trace)
    yield Tensor, "backward", functools.partial(heard_backward, trace)
    yield Tensor, "requires_grad", functools.partial(_flag, trace)
    yield Tensor, "requires_grad_", functools.partial(_flagging, trace)
    for name in CONSTRUCTORS:
        yield pellucid, name, functools.partial(_constructor, trace, name)
    yield pellucid.autograd, "Variable", functools.partial(_constructor, trace, "Variable")
    yield TypedTensor, "__call__", functools.partial(_old_type, trace)
    yield Tensor, "__init__", functools.partial(_old_constructor, trace)
    yield Parameter, "__init__", functools.partial(_parameter, trace)
    yield Parameter, "__deepcopy__", functools.partial(_copied, trace)
    for name in FACTORIES:
        yield pellucid, name, functools.partial(_factory, trace)
    for name in NEW:
        yield Tensor, name, functools.partial(_factory, trace)
    for owner in (pellucid, Tensor, *_kinds_of(Distribution)):
        for name in SAMPLERS if owner in (pellucid, Tensor) else ("sample",) if "sample" in vars(owner) else ():
            yield owner, name, functools.partial(_sampler, trace, name)


def _way_out(trace: Trace, how: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def leaving(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        if not of_ours():
            trace.departed(self, how, result)
        return result

    return leaving


def _detaching(trace: Trace, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def detach_(self: Tensor) -> Tensor:
        before = trace.value_of(self)
        original(self)
        operation = trace.departed(self, "detach_", None)
        operation.inputs = (before,)
        operation.outputs = (trace._new(self, operation),)
        return self

    return detach_


def _data(trace: Trace, original: Any) -> Any:
    def read(self: Tensor) -> Tensor:
        result = original.fget(self)
        if not of_ours():
            trace.departed(self, "data", result)
        return result  # type: ignore[no-any-return]

    def assign(self: Tensor, value: Tensor) -> None:
        same = _have_same_numbers(self, value)
        original.fset(self, value)
        if same:  # model.to(device)
            return
        trace._note_initialisation(self)
        computed = isinstance(value, Tensor) and _is_computed(trace, value)
        trace._note_update_by_hand(self, steps=not computed)
        if computed:
            trace.rebuilt([value], "data", self)  # such as the weights that one network makes for another

    return property(read, assign)


def _have_same_numbers(one: Tensor, other: Any) -> bool:
    old, new = one.array, getattr(other, "array", None)
    return isinstance(old, np.ndarray) and isinstance(new, np.ndarray) and np.array_equal(old, new)


def _is_computed(trace: Trace, tensor: Tensor) -> bool:
    """Whether a tensor's numbers were computed of what learns, and not by a rule that changes parameters."""
    value = trace.value_of(tensor)
    if value.maker is not None and value.maker.leaves_graph and value.maker.inputs:
        value = value.maker.inputs[0]  # p.data = w.data, p.data = w.detach()
    return value.requires_grad and value.parameter is None and value.maker is not None


def _grad(trace: Trace, original: Any) -> Any:
    def assign(self: Tensor, value: Any) -> None:
        if not of_ours():
            if value is None:
                trace.cleared([self], "grad = None")
            elif value is not self._grad and (parameter := trace.parameter_of(self)) is not None:  # not `p.grad *= 2`
                trace.handmade.add(parameter)
        original.fset(self, value)

    return property(original.fget, assign, original.fdel)


def _zeroing(trace: Trace, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def zero_(self: Tensor) -> Tensor:
        owners = [] if of_ours() else trace.owners_of_gradient(self)
        if owners:
            trace.cleared(owners, "grad.zero_()")
        return original(self)  # type: ignore[no-any-return]

    return zero_


def heard_backward(trace: Trace, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def backward(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        root = self if isinstance(self, Tensor) else tensors_in(self)[0]  # autograd.backward takes several
        event = trace.begin_backward(root, bool(kwargs.get("retain_graph") or (len(args) > 1 and args[1])))
        try:
            result = original(self, *args, **kwargs)
        except BaseException as error:
            trace.end_backward(event, error)
            raise
        trace.end_backward(event, None)
        return result

    return backward


def _flag(trace: Trace, original: Any) -> Any:
    def assign(self: Tensor, value: bool) -> None:
        _note_flag(trace, self, bool(value))
        original.fset(self, value)

    return property(original.fget, assign)


def _flagging(trace: Trace, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def requires_grad_(self: Tensor, requires_grad: bool = True) -> Tensor:
        _note_flag(trace, self, bool(requires_grad))
        return original(self, requires_grad)  # type: ignore[no-any-return]

    return requires_grad_


def _note_flag(trace: Trace, tensor: Tensor, value: bool) -> None:
    parameter = trace.parameter_of(tensor)
    if value and parameter is None:
        trace.becomes_leaf(tensor, route_here())
    if parameter is not None:
        parameter.frozen_at = None if value else user_place()
        parameter.frozen_order = trace._count()
        trace.value_ends(tensor)


def _constructor(trace: Trace, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def construct(data: Any = (), *args: Any, **kwargs: Any) -> Tensor:
        result: Tensor = original(data, *args, **kwargs)
        _note_construction(trace, name, data, result)
        return result

    return construct


def _note_construction(trace: Trace, name: str, data: Any, result: Tensor) -> None:
    sources = _first_tensors(data)
    if sources and result is not data:
        trace.rebuilt(sources, name, result)
    elif isinstance(data, (np.ndarray, np.generic, list, float)):
        _arrived(trace, data, result)
    if result is not data:
        trace.placed(result, route_here())


def _first_tensors(data: Any, most: int = 100) -> list[Tensor]:
    """The tensors among the first things in nested lists: data of a million numbers is not searched for one."""
    if isinstance(data, Tensor):
        return [data]
    first = data[:most] if isinstance(data, (list, tuple)) else ()
    return [tensor for each in first for tensor in _first_tensors(each, 10)]


def _old_type(trace: Trace, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def __call__(self: Any, *data: Any, **kwargs: Any) -> Tensor:
        result: Tensor = original(self, *data, **kwargs)
        _note_construction(trace, self.__name__, data[0] if len(data) == 1 else (), result)
        return result

    return __call__


def _old_constructor(trace: Trace, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def __init__(self: Tensor, *data: Any, **kwargs: Any) -> None:
        original(self, *data, **kwargs)
        _note_construction(trace, "Tensor", data[0] if len(data) == 1 else (), self)

    return __init__


def _parameter(trace: Trace, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def __init__(self: Any, data: Any = None, requires_grad: bool = True) -> None:
        original(self, data, requires_grad)
        trace.placed(self, route_here())
        if self.node is not None and isinstance(data, Tensor) and data.node is not None:
            trace.rebuilt([data], "Parameter", self)  # a computed value becomes a leaf: the graph ends here

    return __init__


def _copied(trace: Trace, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def __deepcopy__(self: Any, memo: Any) -> Any:
        result = original(self, memo)
        parameter = trace.parameter_of(result)
        if parameter is not None:
            parameter.created, parameter.route = _beyond_the_copier(), ()
        return result

    return __deepcopy__


def _beyond_the_copier() -> Place:
    """The user's line that copies something."""
    frame = outside(getframe(1))
    while copies(frame) and frame.f_back is not None:
        frame = outside(frame.f_back)
    return Place(frame.f_code, frame.f_lasti)


def _kinds_of(kind: type) -> Iterator[type]:
    yield kind
    child: type
    for child in kind.__subclasses__():
        yield from _kinds_of(child)


def _sampler(trace: Trace, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """Random numbers depend on what they are drawn with, by value and without a derivative."""

    @functools.wraps(original)
    def draw(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        sources = _parts_of(self)
        if isinstance(result, Tensor) and result.node is None and sources and not of_ours():
            trace.drawn(sources, name, result)
        return result

    return draw


def _parts_of(thing: Any) -> list[Tensor]:
    """A tensor, or the tensors that a distribution was made with."""
    if isinstance(thing, Tensor):
        return [thing]
    inner = vars(thing).values()
    deeper = [part for each in inner if isinstance(each, Distribution) for part in _parts_of(each)]
    return [*(each for each in inner if isinstance(each, Tensor)), *deeper]


def _factory(trace: Trace, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def make(*args: Any, **kwargs: Any) -> Tensor:
        result: Tensor = original(*args, **kwargs)
        if not of_ours():
            trace.placed(result, route_here())
        return result

    return make


def _arrived(trace: Trace, data: Any, result: Tensor) -> None:
    """A tensor was made of numbers: if they left the graph a while ago, it is the same value come back."""
    sources = [trace._arrays_departed[key][1]] if (key := _address(data)) in trace._arrays_departed else []
    if not sources and isinstance(data, (list, float, np.generic)):
        numbers = data if isinstance(data, list) else [data]
        sources = [trace._departed[n] for n in numbers[:100] if isinstance(n, float) and n in trace._departed]
    if sources:
        value = trace._new(result, sources[0])
        value.parameter = trace.parameter_of(result)
        sources[0].outputs = (*sources[0].outputs, value)
    else:
        trace.open.arrivals.append((trace._count(), trace.value_of(result)))


def _address(data: Any) -> int:
    return int(data.__array_interface__["data"][0]) if isinstance(data, np.ndarray) else 0
