"""Containers: modules in a row, in a list, in a dictionary; parameters in a list and in a dictionary."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from operator import index as as_int
from typing import Any

from pellucid.core.tensor import Tensor
from pellucid.nn.modules.module import Module
from pellucid.nn.parameter import Parameter

__all__ = ["Container", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


class Container(Module):
    """An old name for a module with parts given by keyword.

    >>> import pellucid as torch
    >>> torch.nn.Container(first=torch.nn.ReLU(), second=torch.nn.Tanh())
    Container(
      (first): ReLU()
      (second): Tanh()
    )
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        for name, module in kwargs.items():
            self.add_module(name, module)


def _position(index: Any, size: int) -> int:
    number = as_int(index)
    if not -size <= number < size:
        raise IndexError(f"index {number} is out of range")
    return number % size if size else number


class Sequential(Module):
    """Modules one after the other: the output of each is the input of the next.

    >>> import pellucid as torch
    >>> torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
    Sequential(
      (0): Linear(in_features=2, out_features=3, bias=True)
      (1): ReLU()
    )
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        named = args[0].items() if len(args) == 1 and isinstance(args[0], OrderedDict) else enumerate(args)
        for name, module in named:
            self.add_module(str(name), module)

    def forward(self, input: Any) -> Any:
        """Pass the input through all modules."""
        for module in self._modules.values():
            input = module(input)
        return input

    def _renumbered(self, modules: Iterable[Module]) -> None:
        self._modules.clear()
        self._modules.update((str(i), module) for i, module in enumerate(modules))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return list(self._modules.values())[_position(index, len(self))]

    def __setitem__(self, index: Any, module: Module) -> None:
        setattr(self, list(self._modules)[_position(index, len(self))], module)

    def __delitem__(self, index: Any) -> None:
        names = list(self._modules)[index] if isinstance(index, slice) else [list(self._modules)[index]]
        for name in names:
            delattr(self, name)
        self._renumbered(list(self._modules.values()))

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __add__(self, other: Any) -> "Sequential":
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return Sequential(*self, *other)

    def __iadd__(self, other: Any) -> "Sequential":
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return self.extend(other)

    def __mul__(self, times: int) -> "Sequential":
        if not isinstance(times, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(times)}")
        if times <= 0:
            raise ValueError(f"Non-positive multiplication factor {times} for {type(self)}")
        return Sequential(*(module for _ in range(times) for module in self))

    __rmul__ = __mul__

    def append(self, module: Module) -> "Sequential":
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, sequential: Iterable[Module]) -> "Sequential":
        """Add several modules at the end."""
        for module in list(sequential):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> "Sequential":
        """Add a module at a place."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Index out of range: {index}")
        modules = list(self)
        modules.insert(index if index >= 0 else index + len(self), module)
        self._renumbered(modules)
        return self

    def pop(self, key: Any) -> Module:
        """Take a module out."""
        module = self[key]
        del self[key]
        return module  # type: ignore[no-any-return]


class ModuleList(Module):
    """A list of modules that are registered; it computes nothing itself.

    >>> import pellucid as torch
    >>> layers = torch.nn.ModuleList([torch.nn.Linear(2, 2) for _ in range(3)])
    >>> len(list(layers.parameters()))
    6
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def _set_all(self, modules: Iterable[Module]) -> None:
        modules = list(modules)
        self._modules.clear()
        for i, module in enumerate(modules):
            self.add_module(str(i), module)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return self._modules[str(_position(index, len(self)))]

    def __setitem__(self, index: Any, module: Module) -> None:
        setattr(self, str(_position(index, len(self))), module)

    def __delitem__(self, index: Any) -> None:
        modules = list(self)
        del modules[index]
        self._set_all(modules)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __contains__(self, module: object) -> bool:
        return any(each is module for each in self)

    def __add__(self, other: Iterable[Module]) -> "ModuleList":
        return ModuleList([*self, *other])

    def __iadd__(self, modules: Iterable[Module]) -> "ModuleList":
        return self.extend(modules)

    def append(self, module: Module) -> "ModuleList":
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> "ModuleList":
        """Add several modules at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(f"ModuleList.extend should be called with an iterable, but got {type(modules).__name__}")
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> None:
        """Add a module at a place."""
        modules = list(self)
        modules.insert(index, module)
        self._set_all(modules)

    def pop(self, key: Any) -> Module:
        """Take a module out."""
        module = self[key]
        del self[key]
        return module  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        """As PyTorch writes it: equal neighbours are folded into one line."""
        texts = [repr(module) for module in self]
        if not texts:
            return f"{self._get_name()}()"
        spans = [[0, 0]]
        for i in range(1, len(texts)):
            if texts[i] == texts[spans[-1][0]]:
                spans[-1][1] = i
            else:
                spans.append([i, i])
        lines = []
        for first, last in spans:
            name = f"({first})" if first == last else f"({first}-{last})"
            text = texts[first] if first == last else f"{last - first + 1} x {texts[first]}"
            lines.append(f"{name}: " + text.replace("\n", "\n  "))
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


class ModuleDict(Module):
    """A dictionary of modules that are registered, in the order in which they were added.

    >>> import pellucid as torch
    >>> torch.nn.ModuleDict({"up": torch.nn.Linear(1, 2)})["up"].out_features
    2
    """

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]  # type: ignore[no-any-return]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Take everything out."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Take a module out."""
        module = self[key]
        del self[key]
        return module

    def keys(self) -> Any:
        """The names."""
        return self._modules.keys()

    def items(self) -> Any:
        """The names and the modules."""
        return self._modules.items()

    def values(self) -> Any:
        """The modules."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Add modules from a mapping or from pairs."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                f"ModuleDict.update should be called with an iterable of key/value pairs, but got "
                f"{type(modules).__name__}"
            )
        pairs = modules.items() if isinstance(modules, (Mapping, ModuleDict)) else modules
        for key, module in pairs:
            self[key] = module


def _as_member(value: Any) -> Any:
    """What a parameter container keeps: a tensor becomes a parameter, anything else stays what it is."""
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


class ParameterList(Module):
    """A list of parameters that are registered.

    >>> import pellucid as torch
    >>> class Polynomial(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factors = torch.nn.ParameterList([torch.tensor(float(k)) for k in (1, 2, 3)])
    ...
    ...     def forward(self, x):
    ...         return sum(factor * x**k for k, factor in enumerate(self.factors))
    >>> model = Polynomial()
    >>> model(torch.tensor(2.0)).item(), len(list(model.parameters()))  # 1 + 2 * 2 + 3 * 4
    (17.0, 3)
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return getattr(self, str(_position(index, len(self))))

    def __setitem__(self, index: Any, value: Any) -> None:
        setattr(self, str(_position(index, len(self))), _as_member(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(len(self))])

    def __iadd__(self, values: Iterable[Any]) -> "ParameterList":
        return self.extend(values)

    def append(self, value: Any) -> "ParameterList":
        """Add a parameter at the end."""
        setattr(self, str(self._size), _as_member(value))
        self._size += 1
        return self

    def extend(self, values: Iterable[Any]) -> "ParameterList":
        """Add several parameters at the end."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for value in values:
            self.append(value)
        return self

    def extra_repr(self) -> str:
        """One line for each member."""
        return "\n".join(_member_line(i, value, "dtype") for i, value in enumerate(self))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dictionary of parameters that are registered, in the order in which they were added.

    >>> import pellucid as torch
    >>> scales = torch.nn.ParameterDict({"height": torch.ones(1), "width": torch.ones(1)})
    >>> scales["width"].item(), [name for name, _ in scales.named_parameters()]
    (1.0, ['height', 'width'])
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        self._keys[key] = None
        setattr(self, key, _as_member(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __or__(self, other: "ParameterDict") -> "ParameterDict":
        joined = self.copy()
        joined.update(other)
        return joined

    def __ior__(self, other: "ParameterDict") -> "ParameterDict":
        self.update(other)
        return self

    def copy(self) -> "ParameterDict":
        """Another dictionary with the same parameters."""
        return ParameterDict(OrderedDict(self.items()))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The parameter under a key, put there if it was not."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Take everything out."""
        for key in list(self):
            del self[key]

    def pop(self, key: str) -> Any:
        """Take a parameter out."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Take out what was added last."""
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        """The parameter under a key, or the default."""
        return getattr(self, key) if key in self._keys else default

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> "ParameterDict":
        """A dictionary with these keys, all with the default."""
        return ParameterDict((key, default) for key in keys)

    def keys(self) -> Any:
        """The names."""
        return self._keys.keys()

    def items(self) -> Any:
        """The names and the parameters."""
        return [(key, self[key]) for key in self]

    def values(self) -> Any:
        """The parameters."""
        return [self[key] for key in self]

    def update(self, parameters: Any) -> None:
        """Add parameters from a mapping or from pairs."""
        if not isinstance(parameters, Iterable):
            raise TypeError(
                f"ParametersDict.update should be called with an iterable of key/value pairs, but got "
                f"{type(parameters).__name__}"
            )
        pairs: Any = parameters
        if isinstance(parameters, (Mapping, ParameterDict)):
            ordered = isinstance(parameters, (OrderedDict, ParameterDict))
            pairs = parameters.items() if ordered else sorted(parameters.items())  # as in PyTorch
        for key, value in pairs:
            self[key] = value

    def extra_repr(self) -> str:
        """One line for each member."""
        return "\n".join(_member_line(key, value, "type") for key, value in self.items())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")


def _member_line(key: Any, value: Any, told_by: str) -> str:
    """A member in one line; PyTorch tells those of a list by their dtype, those of a dictionary by their type."""
    if not isinstance(value, Tensor):
        return f"  ({key}): Object of type: {type(value).__name__}"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    elements = value.dtype if told_by == "dtype" else value.type()
    return f"  ({key}): {kind} containing: [{elements} of size {'x'.join(str(size) for size in value.shape)}]"
