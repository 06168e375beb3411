"""Parametrizations: a tensor of a module becomes a function of another tensor, which is what is learned.

`register_parametrization(layer, "weight", Symmetric())` moves the weight to `layer.parametrizations.weight.original`
and gives the layer a class of its own, on which `weight` is a property: reading it runs the parametrization.
"""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from pellucid.core import modes
from pellucid.core.tensor import Tensor
from pellucid.nn.modules.container import ModuleDict, ModuleList
from pellucid.nn.modules.module import Module
from pellucid.nn.parameter import Parameter

__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization", "remove_parametrizations",
    "transfer_parametrizations_and_params", "type_before_parametrizations",
]  # fmt: skip

CACHE: dict[tuple[int, str], Any] = {}
DEPTH = 0  # how many `cached` blocks are open


@contextmanager
def cached() -> Iterator[None]:
    """Within the block every parametrization runs once, and its result is used again.

    >>> import pellucid as torch
    >>> layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 2))
    >>> with cached():
    ...     layer.weight is layer.weight
    True
    """
    global DEPTH
    DEPTH += 1
    try:
        yield
    finally:
        DEPTH -= 1
        if not DEPTH:
            CACHE.clear()


def _put(holder: Module, name: str, tensor: Any) -> None:
    """Register a tensor as what it is."""
    if isinstance(tensor, Parameter):
        holder.register_parameter(name, tensor)
    else:
        holder.register_buffer(name, tensor)


def _unlike(first: Any, second: Any) -> str:
    """In what two tensors differ: "dtype", "shape" or nothing."""
    if first.dtype != second.dtype:
        return "dtype"
    return "shape" if first.shape != second.shape else ""


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, applied one after the other, and the tensors they start from.

    These are `original`, or `original0`, `original1`, ... where the first parametrization takes several.
    """

    def __init__(self, modules: Sequence[Module], original: Any, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        start = self._start(original, NotImplementedError)
        self.is_tensor = isinstance(start, Tensor)
        self.ntensors = 1 if self.is_tensor else len(start)
        if self.is_tensor:
            for what in ("dtype", "device"):
                if getattr(original, what) != getattr(start, what):
                    raise ValueError(
                        f"When `right_inverse` outputs one tensor, it may not change the {what}.\noriginal.{what}: "
                        f"{getattr(original, what)}\nright_inverse(original).{what}: {getattr(start, what)}"
                    )
            before = original.data
            original.data = start.data
            _put(self, "original", original)
        else:
            before = None
            for i, part in enumerate(start):
                as_parameter = isinstance(original, Parameter)
                _put(self, f"original{i}", Parameter(part, original.requires_grad) if as_parameter else part)
        if not unsafe:
            try:
                self._check(original if before is None else before)
            except BaseException:
                if before is not None:
                    original.data = before
                raise

    def _start(self, value: Any, *passed_over: type[Exception]) -> Any:
        """What the parametrizations have to start from in order to give a value.

        When they are registered, one that cannot say it is passed over: the value changes. An assignment may not.
        """
        with modes.no_grad():
            for module in reversed(self):  # type: ignore[call-overload]
                if hasattr(module, "right_inverse"):
                    with suppress(*passed_over):
                        value = module.right_inverse(value)
        if isinstance(value, Tensor):
            return value
        if not isinstance(value, Sequence) or not all(isinstance(part, Tensor) for part in value):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(value).__name__}"
            )
        return value

    def _check(self, original: Any) -> None:
        with modes.no_grad():
            found = self()
        if not isinstance(found, Tensor):
            raise ValueError(f"A parametrization must return a tensor. Got {type(found).__name__}.")
        what = _unlike(found, original)
        if what:
            raise ValueError(
                f"Registering a parametrization may not change the {what} of the tensor, unless `unsafe` flag is "
                f"enabled.\nunparametrized {what}: {getattr(original, what)}\n"
                f"parametrized {what}: {getattr(found, what)}"
            )

    def originals(self) -> list[Any]:
        """The tensors that the first parametrization takes."""
        return [self.original] if self.is_tensor else [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value: Any) -> None:
        """Set the originals so that the parametrizations give this value."""
        for module in self:
            if not hasattr(module, "right_inverse"):
                raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
        start = self._start(value)
        parts = [start] if isinstance(start, Tensor) else list(start)
        if len(parts) != self.ntensors:
            raise ValueError(f"'right_inverse' must return {self.ntensors} tensors, as before. Got {len(parts)}.")
        for old, new in zip(self.originals(), parts):
            what = _unlike(old, new)
            if what and not self.unsafe:
                raise ValueError(f"The {what} of the tensor returned by `right_inverse` has changed")
        for old, new in zip(self.originals(), parts):
            old.data = new.data

    def forward(self) -> Any:
        """The tensor that the parametrizations make of the originals."""
        first, *rest = self
        value = first(*self.originals())
        for module in rest:
            value = module(value)
        return value


# --- the class of a parametrized module


def _refuse_pickling(self: Module) -> Any:
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict(): save module.state_dict(), make "
        "the module anew with its parametrizations, and load it there"
    )


def _deepcopied(self: Module, memo: dict[int, Any]) -> Module:
    made = object.__new__(type(self))
    memo[id(self)] = made
    made.__setstate__(copy.deepcopy(Module.__getstate__(self), memo))
    return made


def _property(name: str) -> property:
    def get(self: Module) -> Any:
        if not DEPTH:
            return self.parametrizations[name]()
        key = (id(self), name)
        if key not in CACHE:
            CACHE[key] = self.parametrizations[name]()
        return CACHE[key]

    def put(self: Module, value: Any) -> None:
        self.parametrizations[name].right_inverse(value)

    return property(get, put)


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Make a parameter or buffer of a module a function of another tensor; a second one is applied after the first.

    A parametrization is a module; if it has a method `right_inverse`, the tensor keeps its value and can be assigned.

    >>> import pellucid as torch
    >>> class Symmetric(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).mT
    >>> layer = torch.nn.Linear(3, 3)
    >>> _ = torch.nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
    >>> torch.equal(layer.weight, layer.weight.mT)
    True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_next(getattr(module, tensor_name), parametrization)
        module.parametrizations[tensor_name].append(parametrization)
        module.parametrizations[tensor_name].unsafe |= unsafe
        return module
    if tensor_name not in module._parameters and tensor_name not in module._buffers:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
            f"'{tensor_name}'"
        )
    made = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        given = type(module)
        members = {"__getstate__": _refuse_pickling, "__deepcopy__": _deepcopied}
        module.__class__ = type(f"Parametrized{given.__name__}", (given,), members)
        module.parametrizations = ModuleDict()
    setattr(type(module), tensor_name, _property(tensor_name))
    module.parametrizations[tensor_name] = made
    return module


def _check_next(value: Any, parametrization: Module) -> None:
    """Refuse a further parametrization that changes what the tensor is."""
    with modes.no_grad():
        found = parametrization(value)
        if not isinstance(found, Tensor):
            raise ValueError(f"A parametrization must return a tensor. Got {type(found).__name__}.")
        what = _unlike(value, found)
        if what:
            raise ValueError(
                f"Registering a parametrization may not change the {what} of the tensor, unless the `unsafe` flag is "
                f"enabled.\nmodule.{what}: {getattr(value, what)}\nparametrization(tensor).{what}: "
                f"{getattr(found, what)}"
            )
        if hasattr(parametrization, "right_inverse"):
            back = parametrization.right_inverse(found)
            if not isinstance(back, Tensor):
                raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}")
            what = _unlike(value, back)
            if what:
                raise ValueError(
                    f"The tensor returned by parametrization.right_inverse must have the same {what} as the tensor: "
                    f"{getattr(value, what)}, not {getattr(back, what)}"
                )


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a module has parametrizations, or one of its tensors has.

    >>> import pellucid as torch
    >>> is_parametrized(torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 2)), "weight")
    True
    """
    found = module._modules.get("parametrizations")
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make a tensor an ordinary one again, with the value it has, or with `leave_parametrized=False` the original's.

    >>> import pellucid as torch
    >>> layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 2))
    >>> remove_parametrizations(layer, "weight")
    Linear(in_features=2, out_features=2, bias=True)
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    given = module.parametrizations[tensor_name]
    if leave_parametrized:
        with modes.no_grad():
            value = getattr(module, tensor_name)
        original = _left(given, value)
    elif given.is_tensor:
        original = given.original
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a "
            "sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _put(module, tensor_name, original)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


def _left(given: ParametrizationList, value: Any) -> Any:
    """The tensor that stays, with the value that the parametrizations gave it: the same one where there was one."""
    first = given.originals()[0]
    if given.is_tensor:
        first.data = value.data
        return first
    return Parameter(value, first.requires_grad) if isinstance(first, Parameter) else value


def type_before_parametrizations(module: Module) -> type:
    """The class a module had before it was parametrized.

    >>> import pellucid as torch
    >>> type_before_parametrizations(torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 2))).__name__
    'Linear'
    """
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Give a module the parametrizations of another one, and the tensors they start from."""
    if not is_parametrized(from_module):
        return to_module
    names = list(from_module.parametrizations) if tensor_name is None else [tensor_name]
    for name in names:
        if not hasattr(to_module, name):
            setattr(to_module, name, copy.deepcopy(getattr(from_module, name)))
        for parametrization in from_module.parametrizations[name]:
            register_parametrization(to_module, name, parametrization)
        source, target = from_module.parametrizations[name], to_module.parametrizations[name]
        for i, original in enumerate(source.originals()):
            setattr(target, "original" if source.is_tensor else f"original{i}", original)
    return to_module
