"""The hooks of a module: functions that look at, or change, what goes through it, forward and backward."""

from collections.abc import Callable
from typing import Any

from pellucid.autograd import Function
from pellucid.core.provenance import warn
from pellucid.core.tensor import Handle, Hooks, Tensor
from pellucid.ops.create import zeros

Hook = Callable[..., Any]

# Hooks of every module there is (torch.nn.modules.module.register_module_forward_hook and its kin): the kind of hook,
# and what the modules' own dictionaries of that kind hold. All are in one place, so that a call looks only there.
GLOBAL: Any = Hooks()
REGISTRATIONS: Any = Hooks()  # called whenever any module gets a parameter, a buffer or a module


def everywhere(kind: str) -> list[Any]:
    """The hooks of one kind that every module has."""
    return [hook for of_kind, hook in GLOBAL.values() if of_kind == kind]


def added(hooks: Hooks, hook: Any, prepend: bool = False) -> Handle:
    """Put a hook among others, last or first."""
    handle = hooks.add(hook)
    if prepend:
        hooks.move_to_end(handle.key, last=False)
    return handle


def flagged(handle: Handle, flags: list[tuple[dict[int, bool], bool]]) -> Handle:
    """Note what a hook wants in the dictionaries for that; with the hook the notes go."""
    handle.flags = tuple(noted for noted, wanted in flags if wanted)
    for noted in handle.flags:
        noted[handle.key] = True
    return handle


class Hooked:
    """The part of Module that registers hooks and calls through them."""

    _forward_pre_hooks: Any  # Hooks: id -> hook; programs look into them, so they are what PyTorch has
    _forward_hooks: Any
    _backward_pre_hooks: Any
    _backward_hooks: Any
    _forward_pre_hooks_with_kwargs: dict[int, bool]  # the ids of those that want them
    _forward_hooks_with_kwargs: dict[int, bool]
    _forward_hooks_always_called: dict[int, bool]

    def register_forward_pre_hook(self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False) -> Handle:
        """Call `hook(module, args)` before every forward; what it returns replaces the arguments.

        >>> import pellucid as torch
        >>> layer = torch.nn.Identity()
        >>> _ = layer.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
        >>> layer(torch.zeros(2))
        tensor([1., 1.])
        """
        return flagged(
            added(self._forward_pre_hooks, hook, prepend), [(self._forward_pre_hooks_with_kwargs, with_kwargs)]
        )

    def register_forward_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> Handle:
        """Call `hook(module, args, output)` after every forward; what it returns replaces the output."""
        flags = [(self._forward_hooks_with_kwargs, with_kwargs), (self._forward_hooks_always_called, always_call)]
        return flagged(added(self._forward_hooks, hook, prepend), flags)

    def register_full_backward_pre_hook(self, hook: Hook, prepend: bool = False) -> Handle:
        """Call `hook(module, grad_output)` when the gradients of the outputs arrive; it may replace them."""
        return added(self._backward_pre_hooks, hook, prepend)

    def register_full_backward_hook(self, hook: Hook, prepend: bool = False) -> Handle:
        """Call `hook(module, grad_input, grad_output)` when the gradients of the inputs are known.

        >>> import pellucid as torch
        >>> layer = torch.nn.Linear(2, 1)
        >>> _ = layer.register_full_backward_hook(lambda module, gin, gout: print(gout))
        >>> layer(torch.zeros(1, 2, requires_grad=True)).sum().backward()
        (tensor([[1.]]),)
        """
        return added(self._backward_hooks, hook, prepend)

    register_backward_hook = register_full_backward_hook

    def _called_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call forward with everything that is hooked onto it."""
        result, done = None, set[int]()
        try:
            args, kwargs = self._before_forward(args, kwargs)
            backward = BackwardHooks.of(self)
            args = backward.watch_inputs(args) if backward else args
            result = self.forward(*args, **kwargs)  # type: ignore[attr-defined]
            for hook, with_kwargs, _ in self._after_forward():
                done.add(id(hook))
                changed = hook(self, args, kwargs, result) if with_kwargs else hook(self, args, result)
                result = result if changed is None else changed
            return backward.watch_outputs(result) if backward else result
        except Exception:
            self._always(done, args, kwargs, result)
            raise

    def _after_forward(self) -> list[Any]:
        """(hook, with_kwargs, always_call) of every hook."""
        kwargs, always = self._forward_hooks_with_kwargs, self._forward_hooks_always_called
        own = [(hook, key in kwargs, key in always) for key, hook in self._forward_hooks.items()]
        return [*everywhere("forward"), *own]

    def _always(self, done: set[int], args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """Something failed: run the hooks that are to be called in any case and were not yet."""
        for hook, with_kwargs, always in self._after_forward():
            if always and id(hook) not in done:
                try:
                    changed = hook(self, args, kwargs, result) if with_kwargs else hook(self, args, result)
                    result = result if changed is None else changed
                except Exception as error:
                    what = "module forward hook with ``always_call=True`` raised an exception that was silenced"
                    warn(f"{what} as another error was raised in forward: {error}")

    def _before_forward(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        flags = self._forward_pre_hooks_with_kwargs
        own = [(hook, key in flags) for key, hook in self._forward_pre_hooks.items()]
        for hook, with_kwargs in (*everywhere("forward_pre"), *own):
            if with_kwargs:
                changed = hook(self, args, kwargs)
                if changed is not None:
                    args, kwargs = _args_and_kwargs(changed)
            else:
                changed = hook(self, args)
                if changed is not None:
                    args = changed if isinstance(changed, tuple) else (changed,)
        return args, kwargs


def _args_and_kwargs(changed: Any) -> tuple[Any, Any]:
    if not (isinstance(changed, tuple) and len(changed) == 2):
        raise RuntimeError(
            f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {changed}."
        )
    return changed


class BackwardHooks:
    """The backward hooks of one call: gradients pass them on their way out of the outputs and into the inputs.

    As in PyTorch, only tensors that are arguments themselves, or outputs themselves, are seen, not those in lists.
    """

    def __init__(self, module: Any) -> None:
        self.module = module
        self.grad_outputs: tuple[Any, ...] | None = None
        self.inputs = 0  # how many arguments the call has
        self.constants: dict[int, Any] = {}  # those that need no gradient: hooks are shown zeros, as PyTorch shows them
        self.inputs_watched = False

    @staticmethod
    def of(module: Any) -> "BackwardHooks | None":
        """The hooks of a module's call, None when it has none."""
        own = module._backward_hooks or module._backward_pre_hooks
        return BackwardHooks(module) if own or everywhere("backward") or everywhere("backward_pre") else None

    def watch_inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Pass the inputs that need a gradient through one node, whose gradients are those of the inputs."""
        self.inputs = len(args)
        self.constants = {
            i: (arg.shape, arg.dtype) for i, arg in enumerate(args) if isinstance(arg, Tensor) and not arg.requires_grad
        }
        passed = passed_through(PassInputs, self, args)
        self.inputs_watched = passed is not args
        return passed

    def watch_outputs(self, result: Any) -> Any:
        """Pass the outputs through one node, whose gradients are those of the outputs."""
        if isinstance(result, Tensor):
            return passed_through(PassOutputs, self, (result,))[0]
        if isinstance(result, tuple):
            passed = passed_through(PassOutputs, self, result)
            return type(result)(*passed) if hasattr(result, "_fields") else passed
        what = "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors"
        warn(f"{what} but received {type(result)}")
        return result

    def outputs_arrived(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Run the pre-hooks; without inputs to wait for, the hooks too."""
        for hook in (*everywhere("backward_pre"), *self.module._backward_pre_hooks.values()):
            grads = _replaced(grads, hook(self.module, grads), "Backward pre hook", "grad_output")
        self.grad_outputs = grads
        if not self.inputs_watched:
            warn(
                "Full backward hook is firing when gradients are computed with respect to module outputs since no "
                "inputs require gradients."
            )
            seen = self.inputs_arrived((None,) * self.inputs)
            if any(grad is not None for grad in seen):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always return None or None for "
                    "all gradients."
                )
        return grads

    def inputs_arrived(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Run the hooks with both sides' gradients; a walk that came here another way (a second derivative) has one."""
        if self.grad_outputs is None:
            return grads
        for hook in (*everywhere("backward"), *self.module._backward_hooks.values()):
            grads = _replaced(grads, hook(self.module, grads, self.grad_outputs), "Backward hook", "grad_input")
        self.grad_outputs = None
        return grads


def _replaced(grads: tuple[Any, ...], changed: Any, who: str, what: str) -> tuple[Any, ...]:
    """The gradients that a hook returned in place of others."""
    if changed is None:
        return grads
    changed = changed if isinstance(changed, tuple) else (changed,)
    if len(changed) != len(grads):
        raise RuntimeError(f"{who} returned an invalid number of {what}, got {len(changed)}, but expected {len(grads)}")
    return changed


def passed_through(node: type[Function], hooks: BackwardHooks, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Pass the tensors among some values that need a gradient through one node; the same values if there are none."""
    places = [i for i, value in enumerate(values) if isinstance(value, Tensor) and value.requires_grad]
    if not places:
        return values
    passed = dict(zip(places, node.apply(hooks, len(values), places, *(values[i] for i in places)), strict=True))
    return tuple(passed.get(i, value) for i, value in enumerate(values))


def _spread(grads: tuple[Any, ...], size: int, places: list[int], others: dict[int, Any]) -> tuple[Any, ...]:
    """The gradients at their places among all arguments, the others at theirs, None elsewhere."""
    found = {**others, **dict(zip(places, grads, strict=True))}
    return tuple(found.get(i) for i in range(size))


class PassInputs(Function):
    """The identity, whose backward shows the gradients of a module's inputs to its hooks."""

    @staticmethod
    def forward(ctx: Any, hooks: BackwardHooks, size: int, places: list[int], *tensors: Tensor) -> Any:
        ctx.hooks, ctx.size, ctx.places = hooks, size, places
        return tuple(tensor.view_as(tensor) for tensor in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        constants = {i: zeros(shape, dtype=dtype) for i, (shape, dtype) in ctx.hooks.constants.items()}
        seen = ctx.hooks.inputs_arrived(_spread(grads, ctx.size, ctx.places, constants))
        return None, None, None, *(seen[i] for i in ctx.places)


class PassOutputs(Function):
    """The identity, whose backward shows the gradients of a module's outputs to its hooks."""

    @staticmethod
    def forward(ctx: Any, hooks: BackwardHooks, size: int, places: list[int], *tensors: Tensor) -> Any:
        ctx.hooks, ctx.size, ctx.places = hooks, size, places
        return tuple(tensor.view_as(tensor) for tensor in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        seen = ctx.hooks.outputs_arrived(_spread(grads, ctx.size, ctx.places, {}))
        return None, None, None, *(seen[i] for i in ctx.places)


def register_module_forward_pre_hook(hook: Hook) -> Handle:
    """Call a hook before the forward of every module.

    >>> import pellucid as torch
    >>> show = lambda module, inputs: print(type(module).__name__, "takes", tuple(inputs[0].shape))
    >>> handle = torch.nn.modules.module.register_module_forward_pre_hook(show)
    >>> _ = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())(torch.ones(4, 2))
    Sequential takes (4, 2)
    Linear takes (4, 2)
    ReLU takes (4, 3)
    >>> handle.remove()
    """
    return added(GLOBAL, ("forward_pre", (hook, False)))


def register_module_forward_hook(hook: Hook, *, with_kwargs: bool = False, always_call: bool = False) -> Handle:
    """Call a hook after the forward of every module.

    >>> import pellucid as torch
    >>> show = lambda module, inputs, output: print(type(module).__name__, "gives", tuple(output.shape))
    >>> handle = torch.nn.modules.module.register_module_forward_hook(show)
    >>> _ = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())(torch.ones(4, 2))
    Linear gives (4, 3)
    ReLU gives (4, 3)
    Sequential gives (4, 3)
    >>> handle.remove()
    """
    return added(GLOBAL, ("forward", (hook, with_kwargs, always_call)))


def register_module_full_backward_pre_hook(hook: Hook) -> Handle:
    """Call a hook when the gradients of any module's outputs arrive.

    >>> import pellucid as torch
    >>> show = lambda module, grad_output: print(type(module).__name__, grad_output[0])
    >>> handle = torch.nn.modules.module.register_module_full_backward_pre_hook(show)
    >>> torch.nn.ReLU()(torch.tensor([-1.0, 2.0], requires_grad=True)).sum().backward()
    ReLU tensor([1., 1.])
    >>> handle.remove()
    """
    return added(GLOBAL, ("backward_pre", hook))


def register_module_full_backward_hook(hook: Hook) -> Handle:
    """Call a hook when the gradients of any module's inputs are known.

    >>> import pellucid as torch
    >>> show = lambda module, grad_input, grad_output: print(grad_input[0], grad_output[0])
    >>> handle = torch.nn.modules.module.register_module_full_backward_hook(show)
    >>> torch.nn.ReLU()(torch.tensor([-1.0, 2.0], requires_grad=True)).sum().backward()
    tensor([0., 1.]) tensor([1., 1.])
    >>> handle.remove()
    """
    return added(GLOBAL, ("backward", hook))


register_module_backward_hook = register_module_full_backward_hook


def register_module_parameter_registration_hook(hook: Hook) -> Handle:
    """Call `hook(module, name, parameter)` when any module gets a parameter; what it returns takes its place.

    >>> import pellucid as torch
    >>> show = lambda module, name, parameter: print(name, tuple(parameter.shape))
    >>> handle = torch.nn.modules.module.register_module_parameter_registration_hook(show)
    >>> _ = torch.nn.Linear(2, 3)
    weight (3, 2)
    bias (3,)
    >>> handle.remove()
    """
    return added(REGISTRATIONS, ("parameter", hook))


def register_module_buffer_registration_hook(hook: Hook) -> Handle:
    """Call `hook(module, name, buffer)` when any module gets a buffer; what it returns takes its place.

    >>> import pellucid as torch
    >>> show = lambda module, name, buffer: print(name, tuple(buffer.shape))
    >>> handle = torch.nn.modules.module.register_module_buffer_registration_hook(show)
    >>> _ = torch.nn.BatchNorm1d(2)
    running_mean (2,)
    running_var (2,)
    num_batches_tracked ()
    >>> handle.remove()
    """
    return added(REGISTRATIONS, ("buffer", hook))


def register_module_module_registration_hook(hook: Hook) -> Handle:
    """Call `hook(module, name, submodule)` when any module gets a module; what it returns takes its place.

    >>> import pellucid as torch
    >>> show = lambda module, name, submodule: print(name, submodule)
    >>> handle = torch.nn.modules.module.register_module_module_registration_hook(show)
    >>> _ = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh())
    0 ReLU()
    1 Tanh()
    >>> handle.remove()
    """
    return added(REGISTRATIONS, ("module", hook))


def registered(kind: str, module: Any, name: str, value: Any) -> Any:
    """A new member as the hooks leave it."""
    for of_kind, hook in REGISTRATIONS.values():
        if of_kind == kind:
            changed = hook(module, name, value)
            value = value if changed is None else changed
    return value
