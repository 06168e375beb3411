"""capture: run a function once on real values and get a Program of everything it did."""

import gc
import inspect
import sys
import warnings
from collections.abc import Callable, Iterator
from threading import Lock
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np

from pellucid.compiler.parts import Effect, Input, Owner, Ref, Reference, Same, Value
from pellucid.compiler.program import Program, argument_name
from pellucid.compiler.trace import Origin, Traced, Tracer, released
from pellucid.compiler.trees import Tree, leaves, mapped
from pellucid.core import modes
from pellucid.core.provenance import Place, here
from pellucid.core.tensor import Node, Tensor
from pellucid.errors import CaptureError, a_kind, explain


def capture(
    function: Callable[..., Any],
    /,
    *args: Any,
    on_value_use: Literal["raise", "warn", "allow"] = "raise",
    **kwargs: Any,
) -> Program:
    """Run a function once and write down every operation it applies: forward, backward and in-place updates.

    The run is an ordinary one: gradients and parameters are afterwards what they would be without capture. Tensors
    among the arguments become inputs, also inside tuples, lists and dicts; tensors from outside are read anew at
    every replay. Where Python looks at a value (`if x.sum() > 0`, `.item()`), the path taken would be fixed in the
    program: that raises CaptureError, unless `on_value_use` says "warn" or "allow".

    >>> import pellucid as torch
    >>> w = torch.tensor([2.0, 3.0], requires_grad=True)
    >>> program = torch.capture(lambda x: (w * x).exp(), torch.tensor([1.0, 1.0]))
    >>> program(torch.tensor([0.0, 1.0]))
    tensor([ 1.0000, 20.0855])
    >>> [instruction.op for instruction in program]
    ['mul', 'exp']
    """
    _check(args, kwargs, on_value_use)
    place = here()
    with ONE_AT_A_TIME:
        tracer = Tracer(on_value_use)
        tracer.adopt(_living(Tensor))
        try:
            capturing = _Capture(tracer, (args, kwargs), place, function)
            with modes.switched(tracer=tracer, observers=(), anomaly=False):
                result = function(*args, **kwargs)
                return capturing.program(result)
        finally:
            _release(tracer)


ONE_AT_A_TIME = Lock()  # every tensor holds an array of the one tracer while a function is captured


def _check(args: Any, kwargs: Any, on_value_use: str) -> None:
    if on_value_use not in ("raise", "warn", "allow"):
        raise ValueError(f'on_value_use must be "raise", "warn" or "allow", not {on_value_use!r}')
    if modes.current().tracer is not None:
        what = "capture inside a captured function"
        raise CaptureError(explain(what, str(here()), try_="capture the outer one only"))
    for path, leaf in leaves((args, kwargs)):
        if isinstance(leaf, np.ndarray):
            raise TypeError(
                explain(
                    f"{argument_name(path)} is {a_kind(leaf)}: a captured function takes tensors",
                    str(here()),
                    "an array would become a part of the program and could not change from call to call",
                    "torch.from_numpy(array)",
                )
            )


def _living(*kinds: type) -> list[Any]:
    """Every object of these classes that there is: the garbage collector knows them all (5 ms for 100 000 objects)."""
    classes = set(kinds)
    for kind in kinds:
        classes |= _descendants(kind)
    return [thing for thing in gc.get_objects() if type(thing) in classes]


def _descendants(kind: type) -> set[type]:
    children: list[type] = type.__subclasses__(kind)
    return set(children).union(*(_descendants(child) for child in children))


def _release(tracer: Tracer) -> None:
    """Give every tensor its own array back, and ordinary arrays to tensors and nodes made meanwhile."""
    for origin in tracer.origins.values():
        if origin.tensor.array is origin.traced:
            origin.tensor.array = origin.array
    for thing in _living(Tensor, Node):
        if isinstance(thing, Node):
            released(thing)
        elif type(getattr(thing, "array", None)) is Traced:
            thing.array = thing.array.value


class _Capture:
    """What is known before the run, and the program made of it afterwards."""

    def __init__(self, tracer: Tracer, arguments: tuple[Any, ...], place: Place, function: Callable[..., Any]) -> None:
        self.tracer, self.place, self.function = tracer, place, function
        self.tensors: list[Tensor] = []
        self.inputs: list[Input] = []
        self.names = _names(function)
        self.parameters = _parameters(function)
        for path, leaf in leaves(arguments):
            if isinstance(leaf, Tensor) and not any(leaf is known for known in self.tensors):
                self._add_input(argument_name(path, self.parameters), leaf)
        self.arguments = mapped(self._argument, arguments)
        self.grad_of = {id(origin.grad): origin.tensor for origin in tracer.origins.values() if origin.grad is not None}

    def _add_input(self, name: str, tensor: Tensor) -> None:
        if not isinstance(tensor.array, Traced):
            kind = type(tensor.array).__name__
            raise CaptureError(explain(f"{name} holds a {kind} array: capture inside a transform", str(here())))
        value = self.tracer.new_value(tensor.array)
        self.tensors.append(tensor)
        self.inputs.append(Input(value, name, tensor.array.value))

    def _argument(self, leaf: Any) -> Any:
        return Same(self._index(leaf)) if isinstance(leaf, Tensor) else leaf  # type: ignore[arg-type]

    def _index(self, tensor: Tensor) -> int | None:
        return next((i for i, known in enumerate(self.tensors) if known is tensor), None)

    # --- after the run

    def program(self, result: Tree) -> Program:
        """The program, complete with results and effects."""
        tracer = self.tracer
        tracer.check_random()
        for value, origin in tracer.used:
            self._check_kept(value, origin)
        outputs = mapped(self._output, result)
        effects = [effect for origin in list(tracer.origins.values()) for effect in self._effects(origin)]
        constants = tracer.constants_used([leaf for _, leaf in leaves(outputs)] + [effect.value for effect in effects])
        return Program(
            name=getattr(self.function, "__qualname__", type(self.function).__name__),
            place=self.place,
            parameters=self.parameters,
            instructions=tuple(tracer.instructions),
            inputs=tuple(self.inputs),
            references=tuple(self._reference(value, origin) for value, origin in tracer.used),
            constants=tuple(constants),
            arguments=self.arguments,
            outputs=outputs,
            effects=tuple(effects),
            written=tracer.written(),
            value_uses=tuple(tracer.value_uses),
            needs_no_grad=tuple((effect.name, effect.owner) for effect in effects if self._adds_to_nothing(effect)),
        )

    def _check_kept(self, value: Value, origin: Origin) -> None:
        """Refuse a program that reads a tensor which nobody has any more: the function put another into its place."""
        if self.tracer.on_value_use == "allow" or id(origin.tensor) in self.grad_of or references(origin) > ALONE:
            return
        lines = (each.place for each in self.tracer.instructions if value.number in each.inputs)
        line = next(lines, self.place)
        what = f"a tensor from outside, {value}, was read and then replaced by another"
        if self.tracer.on_value_use == "warn":
            warnings.warn(f"{what} at {line.text}: the program keeps to the first one", UserWarning, stacklevel=2)
            return
        raise CaptureError(
            explain(
                what,
                str(line),
                "the program does not know where the new one went, and would read the old one at every replay",
                "write into it instead (state.copy_(new)), or make it an argument and return the new one",
            )
        )

    def _output(self, leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        if id(leaf) in self.tracer.starts:
            return Same(self._owner(leaf))
        return Ref(self.tracer.own_number(leaf.array))

    def _owner(self, tensor: Tensor) -> Owner:
        index = self._index(tensor)
        return tensor if index is None else index

    def _effects(self, origin: Origin) -> Iterator[Effect]:
        """The fields of a tensor that are not what they were before the run."""
        tensor = origin.tensor
        name = self._name(tensor)
        if tensor.array is not origin.traced:
            yield Effect(name, self._owner(tensor), "array", Ref(self.tracer.own_number(tensor.array)))
        grad = tensor._grad
        if grad is not origin.grad:
            yield Effect(
                name, self._owner(tensor), "grad", None if grad is None else Ref(self.tracer.own_number(grad.array))
            )

    def _adds_to_nothing(self, effect: Effect) -> bool:
        """Backward found no `.grad` to add to, and the function itself did not see to that."""
        tensor = self.tensors[effect.owner] if isinstance(effect.owner, int) else effect.owner
        start = self.tracer.starts[id(tensor)]
        return effect.slot == "grad" and start.grad is None and id(tensor) not in self.tracer.reset

    def _reference(self, value: Value, origin: Origin) -> Reference:
        holder = self.grad_of.get(id(origin.tensor))
        if holder is not None:
            return Reference(value, f"{self._name(holder)}.grad", self._owner(holder), "grad")
        return Reference(value, self._name(origin.tensor), self._owner(origin.tensor), "array")

    def _name(self, tensor: Tensor) -> str:
        index = self._index(tensor)
        if index is not None:
            return self.inputs[index].name
        return self.names.setdefault(id(tensor), f"tensor_{len(self.names)}")


def references(origin: Any) -> int:
    """How many hold a tensor that was there before the capture."""
    return sys.getrefcount(origin.tensor)


ALONE = references(SimpleNamespace(tensor=object()))  # if only the tracer does


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    """What a function calls its positional arguments; nothing when it does not say."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(parameter.name for parameter in parameters if parameter.kind in positional)


def _names(function: Any) -> dict[int, str]:
    """What the function's own code calls the tensors from outside: by closure, by global name, by attribute."""
    owner = getattr(function, "__self__", None)
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    found: dict[str, Any] = {"self": owner if owner is not None else function}
    if code is not None:
        known = function.__globals__
        found.update({name: known[name] for name in code.co_names if name in known})
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            try:
                found[name] = cell.cell_contents
            except ValueError:  # a variable that is not assigned yet
                continue
    names: dict[int, str] = {}
    for name, thing in found.items():
        _collect(name, thing, names)
    return names


def _collect(name: str, thing: Any, names: dict[int, str]) -> None:
    if isinstance(thing, Tensor):
        names.setdefault(id(thing), name)
    elif isinstance(thing, (tuple, list, dict)):
        for path, leaf in leaves(thing):
            if isinstance(leaf, Tensor):
                names.setdefault(id(leaf), f"{name}{path}")
    elif hasattr(thing, "named_parameters") and not isinstance(thing, type):
        for path, parameter in thing.named_parameters():
            names.setdefault(id(parameter), f"{name}.{path}")
