"""The tree of modules: walking it, and changing all of its tensors at once."""

from collections.abc import Callable, Iterator
from typing import Any

from pellucid import dtypes
from pellucid.core import modes
from pellucid.core.departures import cleared
from pellucid.core.tensor import Tensor
from pellucid.nn.parameter import Parameter, is_lazy
from pellucid.ops.create import empty_like


class Tree:
    """The part of Module that knows its children, its parameters and its buffers."""

    training: bool
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]

    # --- walking

    def children(self) -> Iterator[Any]:
        """The modules directly inside, each once."""
        for _, module in self.named_children():
            yield module

    def named_children(self) -> Iterator[tuple[str, Any]]:
        """The modules directly inside with their names, each once."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def modules(self, remove_duplicate: bool = True) -> Iterator[Any]:
        """This module and every module in it, each once."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """This module and every module in it with the path to it.

        >>> import pellucid as torch
        >>> [name for name, _ in torch.nn.Sequential(torch.nn.Identity()).named_modules()]
        ['', '0']
        """
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                inner = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, inner, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """What an optimizer is given: every parameter once."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Every parameter with the path to it.

        >>> import pellucid as torch
        >>> [name for name, _ in torch.nn.Linear(2, 3).named_parameters()]
        ['weight', 'bias']
        """
        return self._named_members(lambda module: module._parameters.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Every buffer once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Every buffer with the path to it."""
        return self._named_members(lambda module: module._buffers.items(), prefix, recurse, remove_duplicate)

    def _named_members(
        self, members: Callable[[Any], Any], prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, member in members(module):
                if member is None or id(member) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(member))
                yield f"{path}.{name}" if path else name, member

    # --- one place in the tree

    def get_submodule(self, target: str) -> Any:
        """The module at a path such as "encoder.0.fc"."""
        found: Any = self
        for name in filter(None, target.split(".")):
            if not hasattr(found, name):
                raise AttributeError(f"{found._get_name()} has no attribute `{name}`")
            found = getattr(found, name)
            if not isinstance(found, Tree):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return found

    def set_submodule(self, target: str, module: Any, strict: bool = False) -> None:
        """Put a module at a path."""
        if not target:
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Tree):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        parent, _, name = target.rpartition(".")
        holder = self.get_submodule(parent)
        if strict and not hasattr(holder, name):
            raise AttributeError(f"{holder._get_name()} has no attribute `{name}`")
        if hasattr(holder, name) and not isinstance(getattr(holder, name), Tree):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(holder, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a path such as "encoder.0.weight"."""
        return self._member(target, "_parameters", "an nn.Parameter")  # type: ignore[return-value]

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a path."""
        return self._member(target, "_buffers", "a buffer")

    def _member(self, target: str, kind: str, what: str) -> Tensor:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        if name not in getattr(module, kind):
            raise AttributeError(f"`{name}` is not {what}")
        return getattr(module, name)  # type: ignore[no-any-return]

    # --- all of it at once

    def apply(self, fn: Callable[[Any], Any]) -> Any:
        """Call a function with every module inside, the innermost first, then with this one."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def train(self, mode: bool = True) -> Any:
        """Set this module and all in it to training (dropout drops, batch norm counts); with False, to evaluation."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Any:
        """Set this module and all in it to evaluation."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Let all parameters take part in learning, or freeze them."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters."""
        parameter: Any
        traced = modes.current().tracer is not None
        for parameter in self.parameters():
            if set_to_none and traced:
                parameter.grad = None  # also where it is None already: a captured program must know where it starts
            elif set_to_none:
                parameter._grad = None
            elif parameter._grad is not None:
                parameter.grad = parameter.grad.detach()
                parameter.grad.zero_()
        cleared(self, "zero_grad()")

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        """Replace the data of every tensor inside by a function of it."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        with modes.no_grad():
            for parameter in self._parameters.values():
                if parameter is not None:
                    parameter.data = fn(parameter)
                    if parameter._grad is not None:
                        parameter._grad.data = fn(parameter._grad)
            for name, buffer in self._buffers.items():
                if is_lazy(buffer):
                    buffer.data = fn(buffer)
                elif buffer is not None:
                    self._buffers[name] = fn(buffer)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Change the dtype of all floating tensors inside; takes what `Tensor.to` takes ('cpu' is the only device).

        >>> import pellucid as torch
        >>> torch.nn.Linear(2, 2).to(torch.float64).weight.dtype
        torch.float64
        """
        if "copy" in kwargs:
            raise RuntimeError(".to() of a module does not accept copy argument: use copy.deepcopy(module)")
        wanted = dtype_among(args, kwargs)
        if wanted is not None and not (wanted.is_floating_point or wanted.is_complex):
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={wanted}"
            )
        return self._apply(lambda tensor: _moved(tensor, wanted, args, kwargs))

    def type(self, dst_type: Any) -> Any:
        """Change the dtype of all tensors inside."""
        return self._apply(lambda tensor: tensor.type(dst_type))

    def float(self) -> Any:
        """All floating tensors inside in float32."""
        return self._floating(dtypes.float32)

    def double(self) -> Any:
        """All floating tensors inside in float64."""
        return self._floating(dtypes.float64)

    def half(self) -> Any:
        """All floating tensors inside in float16."""
        return self._floating(dtypes.float16)

    def bfloat16(self) -> Any:
        """All floating tensors inside in bfloat16."""
        return self._floating(dtypes.bfloat16)

    def _floating(self, dtype: Any) -> Any:
        return self._apply(lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)

    def cpu(self) -> Any:
        """Everything is on the CPU already."""
        return self

    def cuda(self, device: Any = None) -> Any:
        """Refused: there is no GPU here."""
        raise AssertionError(
            "Torch not compiled with CUDA enabled: Pellucid runs on the CPU; write .to(device) with device = 'cpu'"
        )

    def to_empty(self, *, device: Any, recurse: bool = True) -> Any:
        """New memory of the same shapes for all tensors inside, its values not set."""
        return self._apply(lambda tensor: empty_like(tensor, device=device), recurse)

    def share_memory(self) -> Any:
        """Move all parameters and buffers into memory that forked processes share."""
        for tensor in (*self.parameters(), *self.buffers()):
            tensor.share_memory_()
        return self


def dtype_among(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The dtype that arguments of `to` ask for, None if they ask for none."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, dtypes.dtype):
            return value
        if isinstance(value, Tensor):
            return value.dtype
    return None


def _moved(tensor: Tensor, wanted: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    if tensor.ndim not in (4, 5):  # others have no channels to put last
        kwargs = {name: value for name, value in kwargs.items() if name != "memory_format"}
    if wanted is None or tensor.is_floating_point() or tensor.is_complex():
        return tensor.to(*args, **kwargs)  # type: ignore[no-any-return]
    return tensor
