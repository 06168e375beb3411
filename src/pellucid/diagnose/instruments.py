"""Where the trace listens: for the time of a run, some functions of the public API tell it that they are called.

Each instrument is installed on a class or a module and taken away again; nothing of it is there in an ordinary run.
"""

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from typing import Any

import numpy as np

import pellucid
from pellucid.core import modes
from pellucid.core.backward import oldest_first
from pellucid.core.provenance import Place, getframe, outside
from pellucid.core.tensor import Leaf, Tensor
from pellucid.core.views import current_node
from pellucid.diagnose.events import ModeSwitch, Replaced, Scheduled
from pellucid.diagnose.events import Parameter as Known
from pellucid.diagnose.scaling import scaler_instruments
from pellucid.diagnose.tapping import Wrapper, copies, of_ours, replaced, route_here, tensors_in, user_place
from pellucid.diagnose.tapping_tensors import heard_backward, tensor_instruments
from pellucid.diagnose.trace import Trace
from pellucid.nn import functional
from pellucid.nn.modules.module import Module
from pellucid.nn.parameter import Parameter
from pellucid.optim.lr_scheduler import LRScheduler
from pellucid.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from pellucid.transforms import reverse

LOSSES = ("cross_entropy", "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div")


@contextmanager
def listening(trace: Trace) -> Iterator[None]:
    """Let a trace hear everything that happens inside the block."""
    with ExitStack() as stack:
        scalers = scaler_instruments(trace.scaled, trace.left_out)
        heard = chain(tensor_instruments(trace), _modules(trace), _loop(trace), _losses(trace), scalers)
        for owner, name, wrapper in heard:
            stack.enter_context(replaced(owner, name, wrapper))
        stack.enter_context(_steps(trace))
        stack.enter_context(modes.switched(observers=(*modes.current().observers, trace)))
        yield


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
        trace.routes[self] = route_here()

    return __init__


def _maker_of(module: Any) -> Place:
    """The user's line that makes a module: the first one outside the methods of the module itself."""
    frame = outside(getframe(2))
    while frame.f_back is not None and (copies(frame) or _initialises(frame, module)):
        frame = outside(frame.f_back)
    return Place(frame.f_code, frame.f_lasti)


def _initialises(frame: Any, module: Any) -> bool:
    return frame.f_code.co_name == "__init__" and _first_local(frame) is module


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
        call = trace.enter(self, tensors_in(*args, *kwargs.values()))
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
        if isinstance(self, Optimizer):
            trace.optimizer_of(self, user_place(), late=True)
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
    yield pellucid.autograd, "backward", functools.partial(heard_backward, trace)
    yield reverse, "pulled_back", functools.partial(_pulled_back, trace)


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
        if not of_ours() or original.__name__ == "__init__":
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
        if kwargs.get("create_graph"):
            trace.open.differentiated += map(trace.value_of, roots)
        if kwargs.get("create_graph") or len(roots) != 1 or not _are_trained(trace, asked, roots[0]):
            return original(outputs, inputs, *args, **kwargs)
        event = trace.begin_backward(roots[0], bool(kwargs.get("retain_graph")))
        event.asked = True
        try:
            result = original(outputs, inputs, *args, **kwargs)
        except BaseException as error:
            trace.end_backward(event, error)
            raise
        known = [parameter for parameter in asked if parameter is not None]
        trace.end_backward(event, None, dict(zip(known, tensors_in(result), strict=False)))
        return result

    return grad


def _pulled_back(trace: Trace, original: Callable[..., Any]) -> Callable[..., Any]:
    """torch.func.grad and vjp: the rules look at their pass; for the loop, whose parameters are others, it is none."""

    @functools.wraps(original)
    def pulled_back(scope: Any, outputs: Sequence[Tensor], seeds: Any, inputs: Sequence[Tensor], **kwargs: Any) -> Any:
        if trace.open.backward is not None or not _is_whole(scope, outputs):
            return original(scope, outputs, seeds, inputs, **kwargs)
        event = trace.begin_backward(outputs[0], False)
        event.asked = True
        trace.loop.pop()
        try:
            result = original(scope, outputs, seeds, inputs, **kwargs)
        except BaseException as error:
            trace.end_backward(event, error)
            raise
        arguments = [trace.parameter_of(tensor) for tensor in inputs]
        trace.end_backward(event, None, {p: g for p, g in zip(arguments, result, strict=True) if p is not None})
        return result

    return pulled_back


def _is_whole(scope: Any, outputs: Sequence[Tensor]) -> bool:
    """Whether a transform pulls back one number, a loss, and is itself no part of a larger graph or of a vmap."""
    if len(outputs) != 1 or current_node(outputs[0]) is None:
        return False
    array = outputs[0].array
    return isinstance(array, np.ndarray) and array.size == 1 and not scope.seen_outside(outputs)


def _are_trained(trace: Trace, asked: list[Known | None], root: Tensor) -> bool:
    """Whether a call of autograd.grad takes the place of backward(): it asks for parameters, or for every leaf."""
    if not asked or trace.open.backward is not None or None in asked:
        return False
    by_hand = {parameter for update in trace.updates if update.optimizer is None for parameter in update.changed}
    known = [p for p in asked if p is not None]
    return all(p.is_module_parameter or p in by_hand for p in known) or _are_all_leaves(trace, known, root)


def _are_all_leaves(trace: Trace, asked: list[Known], root: Tensor) -> bool:
    """Whether a number depends on these leaves and no others: a loss of raw tensors, not the slope of a network."""
    node = current_node(root) if root.array.size == 1 else None
    leaves = [] if node is None else [each.tensor() for each in oldest_first([node]) if isinstance(each, Leaf)]
    return bool(leaves) and all(leaf is None or trace.parameter_of(leaf) in asked for leaf in leaves)


@contextmanager
def _steps(trace: Trace) -> Iterator[None]:
    """Compare parameters before and after every step of every optimizer."""
    waiting: list[dict[Any, Any]] = []

    def before(optimizer: Any, args: Sequence[Any], kwargs: Any) -> None:
        waiting.append(trace.before_step(trace.optimizer_of(optimizer, user_place(), late=True)))

    def after(optimizer: Any, args: Sequence[Any], kwargs: Any) -> None:
        trace.after_step(trace.optimizer_of(optimizer, user_place(), late=True), waiting.pop(), _rate(optimizer))

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
    names = tuple(inspect.signature(original).parameters)

    @functools.wraps(original)
    def loss(*args: Any, **kwargs: Any) -> Any:
        call = trace.lost(name, {**dict(zip(names, args, strict=False)), **kwargs}, names[0])
        result = original(*args, **kwargs)
        if isinstance(result, Tensor):
            call.result = trace.value_of(result)
        return result

    return loss
