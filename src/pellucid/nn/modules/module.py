"""Module: a piece of a model that knows its parameters, its parts and how to compute its output.

The class is put together of three parts, each in a file of its own: the tree of modules (tree.py), saving and loading
(state.py), hooks (hooks.py). Here are its attributes, its call, and its text.
"""

from typing import Any

from pellucid.core.tensor import Hooks, Tensor
from pellucid.nn.modules import hooks
from pellucid.nn.modules.calls import CALLS, Call, located, tick
from pellucid.nn.modules.hooks import (
    Hooked,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
)
from pellucid.nn.modules.state import Stateful
from pellucid.nn.modules.tree import Tree
from pellucid.nn.parameter import Buffer, Parameter, is_lazy

__all__ = [
    "Module", "register_module_forward_hook", "register_module_forward_pre_hook", "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
]  # fmt: skip

HOOKS = (
    "_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks", "_state_dict_hooks",
    "_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks",
)  # fmt: skip
MEMBERS = ("_parameters", "_buffers", "_modules")
get, put, delete = object.__getattribute__, object.__setattr__, object.__delattr__


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
            extra = f"keyword argument '{next(iter(kwargs))}'" if kwargs else f"{len(args)} positional arguments"
            raise TypeError(f"{type(self).__name__}.__init__() got an unexpected {extra}")
        put(self, "training", True)
        for name in MEMBERS:
            put(self, name, {})
        put(self, "_non_persistent_buffers_set", set())
        for name in HOOKS:
            put(self, name, Hooks())
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def forward(self, *input: Any, **kwargs: Any) -> Any:
        """What the module computes: every subclass writes its own."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    # --- the call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run `forward` with all hooks. An error inside is told which module it happened in, and on what input."""
        call = Call(self, tick())
        CALLS.append(call)
        try:
            if self._is_hooked():
                return self._called_with_hooks(args, kwargs)
            return self.forward(*args, **kwargs)
        except Exception as error:
            raise located(error, self, args, kwargs)
        finally:
            call.end = tick()

    def _is_hooked(self) -> bool:
        here = self.__dict__
        return bool(
            here["_forward_hooks"] or here["_forward_pre_hooks"] or here["_backward_hooks"]
            or here["_backward_pre_hooks"] or any(hooks.GLOBAL.values())
        )  # fmt: skip

    # --- attributes: tensors and modules that are assigned are registered under their names

    def __setattr__(self, name: str, value: Any) -> None:
        members = self.__dict__
        if isinstance(value, (Tensor, Module)) or (
            "_modules" in members and any(name in members[kind] for kind in MEMBERS)
        ):
            self._set_member(name, value)
        else:
            put(self, name, value)

    def _set_member(self, name: str, value: Any) -> None:
        members = self.__dict__
        if "_parameters" not in members:
            kind = {Parameter: "parameters", Module: "module"}
            what = next((word for cls, word in kind.items() if isinstance(value, cls)), None)
            if what is not None:
                raise AttributeError(f"cannot assign {what} before Module.__init__() call")
            put(self, name, value)
        elif isinstance(value, Parameter):
            self._forget(name, but="_parameters")
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            self._forget(name, but="_modules")
            members["_modules"][name] = value
        elif name in members["_parameters"]:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{type(value).__name__}' as parameter '{name}' (torch.nn.Parameter or None expected)"
                )
            members["_parameters"][name] = None
        elif name in members["_modules"]:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{type(value).__name__}' as child module '{name}' (torch.nn.Module or None expected)"
                )
            members["_modules"][name] = None
        elif name in members["_buffers"] or isinstance(value, Buffer):
            self._set_buffer(name, value)
        else:
            put(self, name, value)

    def _set_buffer(self, name: str, value: Any) -> None:
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(
                f"cannot assign '{type(value).__name__}' as buffer '{name}' (torch.nn.Buffer, torch.Tensor or None "
                "expected)"
            )
        persistent = getattr(value, "persistent", name not in self._non_persistent_buffers_set)
        self._forget(name, but="_buffers")
        self._buffers.pop(name, None) if name not in self._buffers else None
        self.register_buffer(name, value, persistent)

    def _forget(self, name: str, but: str) -> None:
        """A name belongs to one kind of member only."""
        members = self.__dict__
        members.pop(name, None)
        for kind in MEMBERS:
            if kind != but:
                members[kind].pop(name, None)

    def __getattr__(self, name: str) -> Any:
        members = self.__dict__
        for kind in MEMBERS:
            if kind in members and name in members[kind]:
                return members[kind][name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __delattr__(self, name: str) -> None:
        for kind in MEMBERS:
            if name in self.__dict__[kind]:
                del self.__dict__[kind][name]
                self._non_persistent_buffers_set.discard(name)
                return
        delete(self, name)

    def __dir__(self) -> list[str]:
        return sorted({*dir(type(self)), *self.__dict__, *self._parameters, *self._modules, *self._buffers})

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter under a name; None keeps the place free."""
        self._check_name(name, "parameter", self._parameters)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{type(param).__name__}' object to parameter '{name}' (torch.nn.Parameter or None "
                "required)"
            )
        if param is not None and not is_lazy(param) and param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly. To "
                f"express '{name}' as a function of another Tensor, compute the value in the forward() method."
            )
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is part of the module's state but not learned.

        >>> import pellucid as torch
        >>> module = torch.nn.Module()
        >>> module.register_buffer("mean", torch.zeros(3))
        >>> module.mean
        tensor([0., 0., 0.])
        """
        self._check_name(name, "buffer", self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{type(tensor).__name__}' object to buffer '{name}' (torch Tensor or None required)"
            )
        self._buffers[name] = tensor
        (self._non_persistent_buffers_set.discard if persistent else self._non_persistent_buffers_set.add)(name)

    def add_module(self, name: str, module: "Module | None") -> None:
        """Add a module under a name."""
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        self._check_name(name, "module", self._modules)
        self._modules[name] = module

    register_module = add_module

    def _check_name(self, name: str, what: str, among: dict[str, Any]) -> None:
        if "_modules" not in self.__dict__:
            raise AttributeError(f"cannot assign {what} before Module.__init__() call")
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
        return {name: value for name, value in self.__dict__.items() if name != "_compiled_call_impl"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the state of a pickled module; one that PyTorch pickled brings names that are not ours."""
        Module.__init__(self)
        for name, value in state.items():
            if name in HOOKS:
                value = Hooks(value)
            elif name in MEMBERS:
                value = dict(value)
            put(self, name, value)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Accepted and ignored: eager is what there is."""


def _indented(text: str) -> str:
    first, *rest = text.split("\n")
    return "\n".join([first, *(f"  {line}" for line in rest)])
