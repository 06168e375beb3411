"""Module: a piece of a model that knows its parameters, its parts and how to compute its output.

The class is put together of three parts, each in a file of its own: the tree of modules (tree.py), saving and loading
(state.py), hooks (hooks.py). Here are its attributes, its call, and its text.
"""

import weakref
from typing import Any

from pellucid.core import provenance
from pellucid.core.tensor import Hooks, Tensor
from pellucid.errors import explain
from pellucid.nn.modules.calls import CALLS, locate, tick
from pellucid.nn.modules.hooks import (
    GLOBAL,
    Hooked,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
    registered,
)
from pellucid.nn.modules.members import KINDS, install, without_mirrors
from pellucid.nn.modules.state import Stateful, _IncompatibleKeys  # noqa: F401 (the one that others look for here)
from pellucid.nn.modules.tree import Tree
from pellucid.nn.parameter import Buffer, Parameter, is_lazy

__all__ = [
    "Module", "register_module_backward_hook", "register_module_buffer_registration_hook",
    "register_module_forward_hook", "register_module_forward_pre_hook", "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook", "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]  # fmt: skip

HOOKS = (
    "_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks", "_state_dict_hooks",
    "_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks",
)  # fmt: skip
FLAGS = ("_forward_pre_hooks_with_kwargs", "_forward_hooks_with_kwargs", "_forward_hooks_always_called")
put, delete, ref, note_call = object.__setattr__, object.__delattr__, weakref.ref, CALLS.append


class Module(Tree, Stateful, Hooked):
    """The base of all models and layers: write `__init__` and `forward`.

    >>> import pellucid as torch
    >>> class Net(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.layer = torch.nn.Linear(2, 3)
    ...     def forward(self, x):
    ...         return self.layer(x).relu()
    >>> Net()
    Net(
      (layer): Linear(in_features=2, out_features=3, bias=True)
    )
    >>> Net()(torch.ones(4, 2)).shape
    torch.Size([4, 3])
    """

    call_super_init = False
    dump_patches = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and (args or kwargs):
            unexpected = f"got an unexpected keyword argument '{next(iter(kwargs))}'" if kwargs else ""
            too_many = f"takes 1 positional argument but {len(args) + 1} were given"
            raise TypeError(f"{type(self).__name__}.__init__() {unexpected or too_many}")
        put(self, "training", True)
        for kind in KINDS:
            install(self, kind)
        put(self, "_non_persistent_buffers_set", set())
        for name in HOOKS:
            put(self, name, Hooks())
        for name in FLAGS:
            put(self, name, {})
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def forward(self, *input: Any, **kwargs: Any) -> Any:
        """What the module computes: every subclass writes its own."""
        what = f'Module [{type(self).__name__}] is missing the required "forward" function'
        raise NotImplementedError(explain(what, try_="def forward(self, x): ... in its class"))

    # --- the call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run `forward` with all hooks. An error inside is told which module it happened in, and on what input."""
        start = tick()
        try:
            if (
                self._forward_hooks or self._forward_pre_hooks or self._backward_hooks or self._backward_pre_hooks
                or GLOBAL
            ):  # fmt: skip
                result = self._called_with_hooks(args, kwargs)
            elif kwargs:
                result = self.forward(*args, **kwargs)
            else:
                result = self.forward(*args)  # without the dictionary it is 20 ns faster
        except Exception as error:
            locate(error, self, args, kwargs)
            raise
        note_call((ref(self), start, tick()))
        return result

    # --- attributes: tensors and modules that are assigned are registered under their names

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, (Tensor, Module)) or self._is_member(name):
            self._set_member(name, value)
        elif name in KINDS:
            install(self, name, value)
        else:
            put(self, name, value)

    def _is_member(self, name: str) -> bool:
        here = self.__dict__
        if "_modules" not in here:
            return False
        return name in here["_parameters"] or name in here["_modules"] or name in here["_buffers"]

    def _set_member(self, name: str, value: Any) -> None:
        here = self.__dict__
        if "_parameters" not in here:
            kind = {Parameter: "parameters", Module: "module"}
            what = next((word for cls, word in kind.items() if isinstance(value, cls)), None)
            if what is not None:
                raise _too_early(self, what)
            put(self, name, value)
        elif isinstance(value, Parameter):
            _check_parameter(name, value)
            self._forget(name, but="_parameters")
            self.register_parameter(name, value)
        elif name in here["_parameters"]:
            self._empty(name, value, here["_parameters"], "parameter", "torch.nn.Parameter")
        elif isinstance(value, Module):
            self._forget(name, but="_modules")
            here["_modules"][name] = registered("module", self, name, value)
        elif name in here["_modules"]:
            self._empty(name, value, here["_modules"], "child module", "torch.nn.Module")
        elif name in here["_buffers"] or isinstance(value, Buffer):
            self._set_buffer(name, value)
        else:
            put(self, name, value)

    def _empty(self, name: str, value: Any, members: dict[str, Any], what: str, kind: str) -> None:
        """Set a member to None: nothing else that is not of its kind may take its place."""
        if value is not None:
            given = value.type() if isinstance(value, Tensor) else type(value).__name__  # type: ignore[attr-defined]
            text = f"cannot assign '{given}' as {what} '{name}' ({kind} or None expected)"
            way = f"nn.Parameter(tensor), or {name}.copy_(tensor) under no_grad()" if what == "parameter" else None
            raise TypeError(explain(text, str(provenance.here()), try_=way if isinstance(value, Tensor) else None))
        members[name] = None

    def _set_buffer(self, name: str, value: Any) -> None:
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(
                f"cannot assign '{type(value).__name__}' as buffer '{name}' (torch.nn.Buffer, torch.Tensor or None "
                "expected)"
            )
        persistent = getattr(value, "persistent", name not in self._non_persistent_buffers_set)
        self.register_buffer(name, value, persistent)

    def _forget(self, name: str, but: str) -> None:
        """A name belongs to one kind of member only."""
        here = self.__dict__
        for kind in KINDS:
            if kind != but:
                here[kind].pop(name, None)
        if name not in here[but]:
            here.pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def __getattr__(self, name: str) -> Any:
        here = self.__dict__
        for kind in KINDS:
            if kind in here and name in here[kind]:
                return here[kind][name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __delattr__(self, name: str) -> None:
        for kind in KINDS:
            if name in self.__dict__[kind]:
                del self.__dict__[kind][name]
                self._non_persistent_buffers_set.discard(name)
                return
        delete(self, name)

    def __dir__(self) -> list[str]:
        names = {*dir(type(self)), *self.__dict__, *self._parameters, *self._modules, *self._buffers}
        return sorted(name for name in names if not name[0].isdigit())  # `model.0` is not Python

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter under a name; None keeps the place free."""
        self._check_name(name, "parameter", self.__dict__.get("_parameters", {}))
        _check_parameter(name, param)
        self._parameters[name] = None if param is None else registered("parameter", self, name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is part of the module's state but not learned.

        >>> import pellucid as torch
        >>> module = torch.nn.Module()
        >>> module.register_buffer("mean", torch.zeros(3))
        >>> module.mean
        tensor([0., 0., 0.])
        """
        self._check_name(name, "buffer", self.__dict__.get("_buffers", {}))
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{type(tensor).__name__}' object to buffer '{name}' (torch Tensor or None required)"
            )
        self._buffers[name] = registered("buffer", self, name, tensor)
        (self._non_persistent_buffers_set.discard if persistent else self._non_persistent_buffers_set.add)(name)

    def add_module(self, name: str, module: "Module | None") -> None:
        """Add a module under a name."""
        if not isinstance(module, Module) and module is not None:
            way = "nn.Sequential(*layers)" if isinstance(module, (list, tuple)) else None
            what = f"{type(module).__name__} is not a Module subclass"
            raise TypeError(explain(what, str(provenance.here()), try_=way))
        self._check_name(name, "module", self.__dict__.get("_modules", {}))
        self._modules[name] = registered("module", self, name, module)

    register_module = add_module

    def _check_name(self, name: str, what: str, among: dict[str, Any]) -> None:
        if "_modules" not in self.__dict__:
            raise _too_early(self, what)
        if not isinstance(name, str):
            raise TypeError(f"{what} name should be a string. Got {type(name).__name__}")
        if "." in name:
            raise KeyError(f'{what} name can\'t contain ".", got: {name}')
        if name == "":
            raise KeyError(f'{what} name can\'t be empty string ""')
        if name not in among and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    # --- text, copies

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What stands between the parentheses of a layer's text."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): {_indented(repr(module))}" for name, module in self._modules.items()]
        if len(lines) == 1 and not children:
            return f"{self._get_name()}({lines[0]})"
        inside = lines + children
        return f"{self._get_name()}(" + ("\n  " + "\n  ".join(inside) + "\n" if inside else "") + ")"

    def __getstate__(self) -> dict[str, Any]:
        return without_mirrors(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the state of a pickled module; one that PyTorch pickled brings names that are not ours."""
        Module.__init__(self)
        for name, value in state.items():
            if name in KINDS:
                install(self, name, value)
            elif name in HOOKS and not isinstance(value, Hooks):
                put(self, name, Hooks({key: _as_ours(name, hook) for key, hook in value.items()}))
            else:
                put(self, name, value)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Accepted and ignored: eager is what there is."""


def _as_ours(name: str, hook: Any) -> Any:
    """A hook of a module that PyTorch pickled, as ours are kept."""
    return (hook, False) if name == "_load_state_dict_pre_hooks" else hook


def _too_early(module: Any, what: str) -> AttributeError:
    """The error for a part that a module gets before it can hold any."""
    why = f"{type(module).__name__}.__init__ has not called super().__init__() yet"
    text = f"cannot assign {what} before Module.__init__() call"
    way = "super().__init__() as the first line of __init__"
    return AttributeError(explain(text, str(provenance.here()), why, way))


def _check_parameter(name: str, param: Any) -> None:
    if param is not None and not isinstance(param, Parameter):
        given = param.type() if isinstance(param, Tensor) else type(param).__name__  # type: ignore[attr-defined]
        raise TypeError(f"cannot assign '{given}' object to parameter '{name}' (torch.nn.Parameter or None required)")
    if param is not None and not is_lazy(param) and param.grad_fn is not None:
        raise ValueError(
            f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly. To "
            f"express '{name}' as a function of another Tensor, compute the value in the forward() method."
        )


def _indented(text: str) -> str:
    first, *rest = text.split("\n")
    return "\n".join([first, *(f"  {line}" for line in rest)])
