"""The hooks of a module: functions that look at, or change, what goes through it, forward and backward."""

from collections.abc import Callable
from typing import Any

from pellucid.autograd import Function
from pellucid.core.tensor import Handle, Hooks, Tensor
from pellucid.transforms.tree import flatten

Hook = Callable[..., Any]

# Hooks of every module there is: torch.nn.modules.module.register_module_forward_hook and its kin.
GLOBAL = {name: Hooks() for name in ("forward_pre", "forward", "backward_pre", "backward")}


def added(hooks: Hooks, hook: Any, prepend: bool = False) -> Handle:
    """Put a hook among others, last or first."""
    handle = hooks.add(hook)
    if prepend:
        hooks.move_to_end(handle.key, last=False)
    return handle


class Hooked:
    """The part of Module that registers hooks and calls through them."""

    _forward_pre_hooks: Hooks  # id -> (hook, with_kwargs)
    _forward_hooks: Hooks  # id -> (hook, with_kwargs, always_call)
    _backward_pre_hooks: Hooks
    _backward_hooks: Hooks

    def register_forward_pre_hook(self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False) -> Handle:
        """Call `hook(module, args)` before every forward; what it returns replaces the arguments.

        >>> import pellucid as torch
        >>> layer = torch.nn.Identity()
        >>> _ = layer.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
        >>> layer(torch.zeros(2))
        tensor([1., 1.])
        """
        return added(self._forward_pre_hooks, (hook, with_kwargs), prepend)

    def register_forward_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> Handle:
        """Call `hook(module, args, output)` after every forward; what it returns replaces the output."""
        return added(self._forward_hooks, (hook, with_kwargs, always_call), prepend)

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
        try:
            args, kwargs = self._before_forward(args, kwargs)
            backward = BackwardHooks.of(self)
            args = backward.watch_inputs(args) if backward else args
            result = self.forward(*args, **kwargs)  # type: ignore[attr-defined]
        except Exception:
            self._after_forward(args, kwargs, None, failed=True)
            raise
        result = self._after_forward(args, kwargs, result)
        return backward.watch_outputs(result) if backward else result

    def _before_forward(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        for hook, with_kwargs in (*GLOBAL["forward_pre"].values(), *self._forward_pre_hooks.values()):
            if with_kwargs:
                changed = hook(self, args, kwargs)
                if changed is not None:
                    if not (isinstance(changed, tuple) and len(changed) == 2):
                        raise RuntimeError(
                            "forward pre-hook must return None or a tuple of (new_args, new_kwargs), "
                            f"but got {changed}."
                        )
                    args, kwargs = changed
            else:
                changed = hook(self, args)
                if changed is not None:
                    args = changed if isinstance(changed, tuple) else (changed,)
        return args, kwargs

    def _after_forward(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, failed: bool = False) -> Any:
        for hook, with_kwargs, always in (*GLOBAL["forward"].values(), *self._forward_hooks.values()):
            if failed and not always:
                continue
            changed = hook(self, args, kwargs, result) if with_kwargs else hook(self, args, result)
            if changed is not None and not failed:
                result = changed
        return result


class BackwardHooks:
    """The backward hooks of one call: gradients pass them on their way out of the outputs and into the inputs."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.grad_outputs: tuple[Any, ...] | None = None
        self.inputs_watched = False

    @staticmethod
    def of(module: Any) -> "BackwardHooks | None":
        """The hooks of a module's call, None when it has none."""
        there = module._backward_hooks or module._backward_pre_hooks or GLOBAL["backward"] or GLOBAL["backward_pre"]
        return BackwardHooks(module) if there else None

    def watch_inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Pass the inputs that need a gradient through one node, whose gradients are those of the inputs."""
        leaves, structure = flatten(args)
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor) and leaf.requires_grad]
        if not places:
            return args
        self.inputs_watched = True
        passed = PassInputs.apply(self, len(leaves), places, *(leaves[i] for i in places))
        for i, tensor in zip(places, passed, strict=True):
            leaves[i] = tensor
        return structure.unflatten(leaves)  # type: ignore[no-any-return]

    def watch_outputs(self, result: Any) -> Any:
        """Pass the outputs through one node, whose gradients are those of the outputs."""
        leaves, structure = flatten(result)
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor) and leaf.requires_grad]
        if not places:
            return result
        passed = PassOutputs.apply(self, len(leaves), places, *(leaves[i] for i in places))
        for i, tensor in zip(places, passed, strict=True):
            leaves[i] = tensor
        return structure.unflatten(leaves)

    def outputs_arrived(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Run the pre-hooks; without inputs to wait for, the hooks too."""
        for hook in (*GLOBAL["backward_pre"].values(), *self.module._backward_pre_hooks.values()):
            changed = hook(self.module, grads)
            if changed is not None:
                grads = changed if isinstance(changed, tuple) else (changed,)
        self.grad_outputs = grads
        if not self.inputs_watched:
            self.inputs_arrived((None,) * max(1, len(grads)))
        return grads

    def inputs_arrived(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Run the hooks with both sides' gradients."""
        for hook in (*GLOBAL["backward"].values(), *self.module._backward_hooks.values()):
            changed = hook(self.module, grads, self.grad_outputs)
            if changed is not None:
                changed = changed if isinstance(changed, tuple) else (changed,)
                if len(changed) != len(grads):
                    raise RuntimeError(
                        "Backward hook returned an invalid number of grad_input, "
                        f"got {len(changed)}, but expected {len(grads)}"
                    )
                grads = changed
        return grads


def _spread(grads: tuple[Any, ...], size: int, places: list[int]) -> tuple[Any, ...]:
    """The gradients at their places among all arguments, None elsewhere."""
    found = dict(zip(places, grads, strict=True))
    return tuple(found.get(i) for i in range(size))


class PassInputs(Function):
    """The identity, whose backward shows the gradients of a module's inputs to its hooks."""

    @staticmethod
    def forward(ctx: Any, hooks: BackwardHooks, size: int, places: list[int], *tensors: Tensor) -> Any:
        ctx.hooks, ctx.size, ctx.places = hooks, size, places
        return tuple(tensor.view_as(tensor) for tensor in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        seen = ctx.hooks.inputs_arrived(_spread(grads, ctx.size, ctx.places))
        return None, None, None, *(seen[i] for i in ctx.places)


class PassOutputs(Function):
    """The identity, whose backward shows the gradients of a module's outputs to its hooks."""

    @staticmethod
    def forward(ctx: Any, hooks: BackwardHooks, size: int, places: list[int], *tensors: Tensor) -> Any:
        ctx.hooks, ctx.size, ctx.places = hooks, size, places
        return tuple(tensor.view_as(tensor) for tensor in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        seen = ctx.hooks.outputs_arrived(_spread(grads, ctx.size, ctx.places))
        return None, None, None, *(seen[i] for i in ctx.places)


def register_module_forward_pre_hook(hook: Hook) -> Handle:
    """Call a hook before the forward of every module."""
    return added(GLOBAL["forward_pre"], (hook, False))


def register_module_forward_hook(hook: Hook, *, with_kwargs: bool = False, always_call: bool = False) -> Handle:
    """Call a hook after the forward of every module."""
    return added(GLOBAL["forward"], (hook, with_kwargs, always_call))


def register_module_full_backward_pre_hook(hook: Hook) -> Handle:
    """Call a hook when the gradients of any module's outputs arrive."""
    return added(GLOBAL["backward_pre"], hook)


def register_module_full_backward_hook(hook: Hook) -> Handle:
    """Call a hook when the gradients of any module's inputs are known."""
    return added(GLOBAL["backward"], hook)
