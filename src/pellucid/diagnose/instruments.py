"""Where the trace listens: for the time of a run, some functions of the public API tell it that they are called.

Each instrument is installed on a class or a module and taken away again; nothing of it is there in an ordinary run.
"""

import copy
import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

import pellucid
from pellucid.core import modes
from pellucid.core.provenance import Place, getframe, outside
from pellucid.core.tensor import Tensor
from pellucid.diagnose.events import ModeSwitch, Replaced, Scheduled
from pellucid.diagnose.events import Parameter as Known
from pellucid.diagnose.trace import Trace
from pellucid.distributions import Distribution
from pellucid.nn import functional
from pellucid.nn.modules.module import Module
from pellucid.nn.parameter import Parameter
from pellucid.ops.construct import TypedTensor
from pellucid.optim.lr_scheduler import LRScheduler
from pellucid.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from pellucid.transforms.tree import flatten

Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]
ABSENT = object()

WAYS_OUT = ("detach", "item", "numpy", "tolist", "__float__", "__int__", "__array__")
CONSTRUCTORS = ("tensor", "as_tensor", "asarray", "from_numpy")
FACTORIES = ("zeros", "ones", "full", "rand", "randn", "zeros_like", "ones_like", "full_like", "rand_like",
             "randn_like", "empty", "normal", "linspace", "arange", "eye")  # fmt: skip
SAMPLERS = ("multinomial", "poisson")
LOSSES = ("cross_entropy", "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div")


@contextmanager
def listening(trace: Trace) -> Iterator[None]:
    """Let a trace hear everything that happens inside the block."""
    with ExitStack() as stack:
        for owner, name, wrapper in (*_tensors(trace), *_modules(trace), *_loop(trace), *_losses(trace)):
            stack.enter_context(replaced(owner, name, wrapper))
        stack.enter_context(_steps(trace))
        stack.enter_context(modes.switched(observers=(*modes.current().observers, trace)))
        yield


@contextmanager
def replaced(owner: Any, name: str, wrapper: Wrapper) -> Iterator[None]:
    """Put a wrapper around an attribute of a class or module, and take it away afterwards."""
    own = owner.__dict__.get(name, ABSENT)
    original = own if own is not ABSENT else getattr(owner, name, ABSENT)
    if original is ABSENT:
        yield
        return
    setattr(owner, name, wrapper(original))
    try:
        yield
    finally:
        if own is ABSENT:
            delattr(owner, name)
        else:
            setattr(owner, name, own)


def tensors_in(*things: Any) -> list[Tensor]:
    """The tensors in arguments and results, also inside lists, tuples and dicts."""
    return [leaf for leaf in flatten(things)[0] if isinstance(leaf, Tensor)]


# --- tensors


def _tensors(trace: Trace) -> Iterator[tuple[Any, str, Wrapper]]:
    for name in WAYS_OUT:
        yield Tensor, name, functools.partial(_way_out, trace, name.strip("_"))
    yield Tensor, "detach_", functools.partial(_detaching, trace)
    yield Tensor, "data", functools.partial(_data, trace)
    yield Tensor, "grad", functools.partial(_grad, trace)
    yield Tensor, "backward", functools.partial(_backward, trace)
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
    for owner in (pellucid, Tensor, *_kinds_of(Distribution)):
        for name in SAMPLERS if owner in (pellucid, Tensor) else ("sample",) if "sample" in vars(owner) else ():
            yield owner, name, functools.partial(_sampler, trace, name)


def _way_out(trace: Trace, how: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def leaving(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        if not _of_ours():
            trace.departed(self, how, result)
        return result

    return leaving


def _of_ours() -> bool:
    """Whether Pellucid itself asked: an optimizer that reads a number is no way out of the user's graph."""
    frame = getframe(2)
    return frame is not outside(frame)


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
        if not _of_ours():
            trace.departed(self, "data", result)
        return result  # type: ignore[no-any-return]

    def assign(self: Tensor, value: Tensor) -> None:
        original.fset(self, value)
        trace._note_initialisation(self)
        trace._note_update_by_hand(self)

    return property(read, assign)


def _grad(trace: Trace, original: Any) -> Any:
    def assign(self: Tensor, value: Any) -> None:
        if value is None and not _of_ours():
            trace.cleared([self], "grad = None")
        original.fset(self, value)

    return property(original.fget, assign, original.fdel)


def _backward(trace: Trace, original: Callable[..., Any]) -> Callable[..., Any]:
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
    if parameter is not None:
        parameter.frozen_at = None if value else _user_place()
        parameter.frozen_order = trace._count()


def _user_place() -> Place:
    frame = outside(getframe(1))
    return Place(frame.f_code, frame.f_lasti)


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
    if result.node is None:
        trace.placed(result, _user_place())


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
        if self.node is None:
            trace.placed(self, _user_place())
        elif isinstance(data, Tensor) and data.node is not None:  # a computed value becomes a leaf: the graph ends here
            trace.rebuilt([data], "Parameter", self)

    return __init__


def _copied(trace: Trace, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def __deepcopy__(self: Any, memo: Any) -> Any:
        result = original(self, memo)
        parameter = trace.parameter_of(result)
        if parameter is not None:
            parameter.created = _beyond_the_copier()
        return result

    return __deepcopy__


def _beyond_the_copier() -> Place:
    """The user's line that copies something."""
    frame = outside(getframe(1))
    while _copies(frame) and frame.f_back is not None:
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
        if isinstance(result, Tensor) and result.node is None and sources and not _of_ours():
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
        if result.node is None and not _of_ours():
            trace.placed(result, _user_place())
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


# --- modules


def _modules(trace: Trace) -> Iterator[tuple[Any, str, Wrapper]]:
    yield Module, "__init__", functools.partial(_creation, trace)
    yield Module, "__call__", functools.partial(_call, trace)
    for name in ("__setattr__", "register_parameter", "add_module"):
        yield Module, name, functools.partial(_assignment, trace)
    yield Module, "train", functools.partial(_train, trace)
    yield Module, "zero_grad", functools.partial(_clearing, trace, lambda self: list(self.parameters()))


def _creation(trace: Trace, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        trace.made_at[self] = _maker_of(self)
        trace.routes[self] = tuple(_route())

    return __init__


def _route(most: int = 8) -> Iterator[Place]:
    """The user's lines that led here, the innermost first."""
    frame = outside(getframe(2))
    while most and frame.f_back is not None:
        yield Place(frame.f_code, frame.f_lasti)
        frame, most = outside(frame.f_back), most - 1


def _maker_of(module: Any) -> Place:
    """The user's line that makes a module: the first one outside the methods of the module itself."""
    frame = outside(getframe(2))
    while frame.f_back is not None and (_copies(frame) or _initialises(frame, module)):
        frame = outside(frame.f_back)
    return Place(frame.f_code, frame.f_lasti)


def _initialises(frame: Any, module: Any) -> bool:
    return frame.f_code.co_name == "__init__" and _first_local(frame) is module


def _copies(frame: Any) -> bool:
    """Whether a frame belongs to `copy.deepcopy`, which is no user."""
    return frame.f_code.co_filename == copy.__file__  # type: ignore[no-any-return]


def _first_local(frame: Any) -> Any:
    code = frame.f_code
    return frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None


def _assignment(trace: Trace, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def assign(self: Any, name: str, value: Any) -> None:
        old = _member(self, name) if isinstance(value, (Parameter, Module)) else None
        original(self, name, value)
        if old is not None and old is not value:
            before, after = _parameters_in(trace, old), _parameters_in(trace, value)
            if any(parameter.optimizers for parameter in before):
                trace.note(Replaced, name, before, after)

    return assign


def _member(module: Any, name: str) -> Any:
    own, children = module.__dict__.get("_parameters", {}), module.__dict__.get("_modules", {})
    return own[name] if name in own else children.get(name)


def _parameters_in(trace: Trace, member: Any) -> frozenset[Any]:
    tensors = [member] if isinstance(member, Tensor) else list(member.parameters())
    return frozenset(p for tensor in tensors if (p := trace.parameter_of(tensor)) is not None)


def _call(trace: Trace, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = trace.enter(self, tensors_in(args, kwargs))
        try:
            result = original(self, *args, **kwargs)
        except BaseException:
            trace.leave(call, [])
            raise
        trace.leave(call, tensors_in(result))
        return result

    return __call__


def _train(trace: Trace, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def train(self: Any, mode: bool = True) -> Any:
        if not _inside_train():
            trace.note(ModeSwitch, self, bool(mode))
        return original(self, mode)

    return train


def _inside_train() -> bool:
    """Whether a module passes the switch on to its children."""
    frame = getframe(2)
    return frame.f_code.co_name == "train" and frame is not outside(frame)


def _clearing(trace: Trace, tensors: Callable[[Any], list[Tensor]], original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def zero_grad(self: Any, *args: Any, **kwargs: Any) -> Any:
        trace.cleared(tensors(self), "zero_grad")
        return original(self, *args, **kwargs)

    return zero_grad


# --- the loop


def _loop(trace: Trace) -> Iterator[tuple[Any, str, Wrapper]]:
    yield Optimizer, "__init__", functools.partial(_optimizer, trace)
    yield Optimizer, "add_param_group", functools.partial(_group, trace)
    yield Optimizer, "zero_grad", functools.partial(_clearing, trace, _held_by)
    yield LRScheduler, "__init__", functools.partial(_scheduled, trace)
    yield LRScheduler, "step", functools.partial(_scheduled, trace)
    yield pellucid.autograd, "grad", functools.partial(_asked, trace)
    yield pellucid.autograd, "backward", functools.partial(_backward, trace)


def _held_by(optimizer: Any) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _optimizer(trace: Trace, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        trace.optimizer_of(self, _maker_of(self))

    return __init__


def _group(trace: Trace, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def add_param_group(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        trace.optimizer_of(self, _maker_of(self))

    return add_param_group


def _scheduled(trace: Trace, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = _rate(getattr(self, "optimizer", args[0] if args else None))
        result = original(self, *args, **kwargs)
        if not _of_ours() or original.__name__ == "__init__":
            trace.note(Scheduled, before, _rate(self.optimizer))
        return result

    return step


def _rate(optimizer: Any) -> float:
    groups = getattr(optimizer, "param_groups", None) or [{}]
    return float(groups[0].get("lr", 0.0))


def _asked(trace: Trace, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def grad(outputs: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        asked = [trace.parameter_of(tensor) for tensor in tensors_in(inputs)]
        trace.asked_for.update(parameter for parameter in asked if parameter is not None)
        roots = tensors_in(outputs)
        if kwargs.get("create_graph") or len(roots) != 1 or not _are_trained(trace, asked):
            return original(outputs, inputs, *args, **kwargs)
        event = trace.begin_backward(roots[0], bool(kwargs.get("retain_graph")))
        try:
            result = original(outputs, inputs, *args, **kwargs)
        except BaseException as error:
            trace.end_backward(event, error)
            raise
        known = [parameter for parameter in asked if parameter is not None]
        trace.end_backward(event, None, dict(zip(known, tensors_in(result), strict=False)))
        return result

    return grad


def _are_trained(trace: Trace, asked: list[Known | None]) -> bool:
    """Whether a call of autograd.grad takes the place of backward(): it asks for the parameters of a model."""
    by_hand = {parameter for update in trace.updates if update.optimizer is None for parameter in update.changed}
    whole = bool(asked) and trace.open.backward is None
    return whole and all(p is not None and (p.is_module_parameter or p in by_hand) for p in asked)


@contextmanager
def _steps(trace: Trace) -> Iterator[None]:
    """Compare parameters before and after every step of every optimizer."""
    waiting: list[dict[Any, Any]] = []

    def before(optimizer: Any, args: Sequence[Any], kwargs: Any) -> None:
        waiting.append(trace.before_step(trace.optimizer_of(optimizer, _user_place())))

    def after(optimizer: Any, args: Sequence[Any], kwargs: Any) -> None:
        trace.after_step(trace.optimizer_of(optimizer, _user_place()), waiting.pop(), _rate(optimizer))

    handles = register_optimizer_step_pre_hook(before), register_optimizer_step_post_hook(after)
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


# --- losses


def _losses(trace: Trace) -> Iterator[tuple[Any, str, Wrapper]]:
    for name, function in list(vars(functional).items()):
        if callable(function) and (name in LOSSES or name.endswith("_loss")):
            yield functional, name, functools.partial(_loss, trace, name)


def _loss(trace: Trace, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def loss(*args: Any, **kwargs: Any) -> Any:
        first, second = _first_two(args, kwargs)
        options = {key: value for key, value in kwargs.items() if key not in ("input", "target")}
        call = trace.lost(name, (first, second), options)
        result = original(*args, **kwargs)
        if isinstance(result, Tensor):
            call.result = trace.value_of(result)
        return result

    return loss


def _first_two(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    first = args[0] if args else kwargs.get("input")
    return first, args[1] if len(args) > 1 else kwargs.get("target")
