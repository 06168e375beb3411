"""Program: what a captured function did, written down as straight-line Python on arrays.

Every value has a number. Some are there before the first instruction: inputs (the tensors given as arguments),
references (tensors from outside, such as parameters, read anew at every replay) and constants. An instruction calls
a kernel, the very NumPy code that the eager operation runs, and makes new values; the only instruction that changes
an old one is a write. Views are NumPy views at replay too, so memory is shared as it was when the program was made.

A program is never changed. `source()` writes it as a Python function, and replay runs exactly that function.
"""

import linecache
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from keyword import iskeyword
from types import SimpleNamespace
from typing import Any

import numpy as np

from pellucid.compiler.listing import listing
from pellucid.compiler.parts import (
    Constant,
    Effect,
    Input,
    Instruction,
    Owner,
    Ref,
    Reference,
    Same,
    Table,
    ValueUse,
    describe,
    short,
)
from pellucid.compiler.trees import Tree, leaves, mapped
from pellucid.core import aliasing, modes
from pellucid.core.provenance import Place, here
from pellucid.core.tensor import Tensor, wrap
from pellucid.errors import CaptureError, a_kind, explain


@dataclass(frozen=True, eq=False)
class Program:
    """A captured function: call it to replay, print it to read it.

    >>> import pellucid as torch
    >>> program = torch.capture(lambda x: x * x + x, torch.tensor([1.0, 2.0]))
    >>> program(torch.tensor([3.0, 4.0]))
    tensor([12., 20.])
    >>> program.op_counts()
    {'mul': 1, 'add': 1}
    """

    name: str
    place: Place
    parameters: tuple[str, ...]  # what the function calls its positional arguments
    instructions: tuple[Instruction, ...]
    inputs: tuple[Input, ...]
    references: tuple[Reference, ...]
    constants: tuple[Constant, ...]
    arguments: Tree  # (args, kwargs) with a Same where a tensor goes
    outputs: Tree  # with a Ref or a Same where a tensor goes
    effects: tuple[Effect, ...]
    written: frozenset[int]  # the numbers of inputs, references and constants whose memory is written to
    value_uses: tuple[ValueUse, ...]
    needs_no_grad: tuple[tuple[str, Owner], ...]  # tensors whose .grad was None, and was then written by backward
    kernels: SimpleNamespace = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kernels", SimpleNamespace(**dict(zip(self._names, self._kernels))))

    def __len__(self) -> int:
        return len(self.instructions)

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self.instructions)

    def op_counts(self) -> dict[str, int]:
        """How often each operation occurs, the most frequent first."""
        return dict(Counter(instruction.op for instruction in self.instructions).most_common())

    @property
    def mutated(self) -> tuple[str, ...]:
        """The names of what the program changes: tensors written in place, and fields such as `w.grad`."""
        names = {self._sources[n].name: None for n in self.written if not isinstance(self._sources[n], Constant)}
        fields = {f"{effect.name}.{effect.slot}": None for effect in self.effects}
        return (*names, *fields)

    # --- replay

    def __call__(self, *args: Any, **kwargs: Any) -> Tree:
        """Run the program on new inputs; parameters and other tensors from outside are read as they are now."""
        if modes.current().tracer is not None:
            raise CaptureError(
                explain("a program cannot be called while capturing", str(here()), try_="call the function itself")
            )
        tensors = self._admitted(args, kwargs)
        arrays = self._arrays(tensors)
        made = dict(zip(self._returned, self._function(self.kernels, self._table.objects, *arrays)))
        self._note_writes(arrays)
        for effect in self.effects:
            array = None if effect.value is None else made[effect.value.number]
            _set(_tensor(effect.owner, tensors), effect.slot, array)
        return mapped(lambda leaf: _output(leaf, made, tensors), self.outputs)

    def _admitted(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
        """The tensors among the arguments, after every check: nothing runs if one of them fails."""
        given = leaves((args, kwargs))
        if [path for path, _ in given] != [path for path, _, _ in self._expected]:
            raise _refused("the arguments have another structure than those it was captured with", self.place)
        tensors: list[Any] = [None] * len(self.inputs)
        for (_, leaf), (_, name, expected) in zip(given, self._expected, strict=True):
            self._admit(name, leaf, expected, tensors)
        for name, owner in self.needs_no_grad:
            if _tensor(owner, tensors)._grad is not None:
                raise _refused(
                    f"{name}.grad is not None",
                    self.place,
                    "it was None when the program was captured, so the program sets it instead of adding to it",
                    f"set {name}.grad = None before the call, or inside the captured function",
                )
        for effect in self.effects:
            if isinstance(effect.owner, int) and effect.slot == "grad" and tensors[effect.owner].node is None:
                raise _refused(f"{effect.name} does not require grad, captured did", self.place)
        return tensors

    @cached_property
    def _expected(self) -> list[tuple[str, str, Any]]:
        """Every leaf of the arguments: its path, its name, what is expected there."""
        return [(path, argument_name(path, self.parameters), leaf) for path, leaf in leaves(self.arguments)]

    def _admit(self, name: str, leaf: Any, expected: Any, tensors: list[Any]) -> None:
        if not isinstance(expected, Same):
            if isinstance(leaf, Tensor) or type(leaf) is not type(expected) or leaf != expected:
                why = "only tensors may change from call to call; anything else is part of the program"
                raise _refused(f"{name} is {short(leaf)}, captured was {short(expected)}", self.place, why)
            return
        if not isinstance(leaf, Tensor):
            raise _refused(f"{name} is {a_kind(leaf)}, captured was a Tensor", self.place)
        number = expected.owner
        assert isinstance(number, int)
        if tensors[number] is not None and tensors[number] is not leaf:
            raise _refused(f"{name} was the same tensor as {self.inputs[number].name} when captured", self.place)
        if any(other is leaf for i, other in enumerate(tensors) if i != number):
            raise _refused(f"{name} is given twice, as another argument too", self.place)
        value = self.inputs[number].value
        if not value.fits(leaf.array):
            found = describe(leaf.array.shape, leaf.array.dtype)
            raise _refused(f"{name} is {found}, captured was {value}", self.place)
        tensors[number] = leaf

    def _arrays(self, tensors: Sequence[Tensor]) -> list[np.ndarray]:
        """What the program starts from: inputs, references as they are now, constants."""
        arrays = [tensor.array for tensor in tensors]
        for reference in self.references:
            tensor = _tensor(reference.owner, tensors)
            holder = tensor if reference.slot == "array" else tensor._grad
            if holder is None:
                try_ = "call backward() once before, as before the capture"
                raise _refused(f"{reference.name} is None, captured was a Tensor", self.place, try_=try_)
            if not reference.value.fits(holder.array):
                found = describe(holder.array.shape, holder.array.dtype)
                raise _refused(f"{reference.name} is {found} now, captured was {reference.value}", self.place)
            arrays.append(holder.array)
        return [*arrays, *(constant.fresh() for constant in self.constants)]

    def _note_writes(self, arrays: Sequence[np.ndarray]) -> None:
        """Tell the ledger of writes, so that graphs which saved this memory know."""
        for number, array in zip(self._sources, arrays, strict=True):
            if number in self.written:
                aliasing.note_write(array, "a captured program")

    # --- the program as Python

    def source(self) -> str:
        """The program as a Python function of arrays.

        `exec` it and call `program(p.kernels, p.table, *arrays)` with inputs, references and constants in order;
        it returns the arrays that the outputs and effects name.

        >>> import pellucid as torch
        >>> print(torch.capture(lambda x: x * x, torch.tensor([1.0])).source().splitlines()[2])
        def program(op, table, v0):
        """
        heads = ", ".join(["op", "table", *(f"v{number}" for number in self._sources)])
        lines = ["import numpy as np", "", f"def program({heads}):"]
        for instruction, name, spent in zip(self.instructions, self._names, self._spent, strict=True):
            lines += [f"    {line}" for line in _executed(instruction, f"op.{name}", self._table)]
            lines += [f"    del {', '.join(f'v{number}' for number in spent)}"] if spent else []
        returned = "".join(f"v{number}, " for number in self._returned)
        return "\n".join([*lines, f"    return ({returned})", ""])

    @property
    def table(self) -> list[Any]:
        """The arguments in `source()` that have no text of their own."""
        return self._table.objects

    @cached_property
    def _table(self) -> Table:
        table = Table()
        for instruction, name in zip(self.instructions, self._names, strict=True):
            instruction.text(name, table)
        return table

    @cached_property
    def _function(self) -> Callable[..., tuple[Any, ...]]:
        source, filename = self.source(), f"<captured {self.name} {id(self)}>"
        linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)  # for tracebacks
        names: dict[str, Any] = {"__name__": "pellucid.captured"}  # where warnings of NumPy are said to come from
        exec(compile(source, filename, "exec"), names)
        function: Callable[..., tuple[Any, ...]] = names["program"]
        return function

    @cached_property
    def _names(self) -> tuple[str, ...]:
        """An identifier for the kernel of every instruction; one operation may have several kernels."""
        known: dict[str, Any] = {}
        names = []
        for instruction in self.instructions:
            name = base = identifier(instruction.op)
            count = 2
            while known.setdefault(name, instruction.kernel) is not instruction.kernel:
                name, count = f"{base}_{count}", count + 1
            names.append(name)
        return tuple(names)

    @cached_property
    def _kernels(self) -> tuple[Callable[..., Any], ...]:
        return tuple(instruction.kernel for instruction in self.instructions)

    @cached_property
    def _sources(self) -> dict[int, Any]:
        """Inputs, references and constants by number, in the order in which the function takes them."""
        sources: list[Any] = [*self.inputs, *self.references, *self.constants]
        return {source.value.number: source for source in sources}

    @cached_property
    def _spent(self) -> list[list[int]]:
        """Per instruction the values that nothing after it needs: their memory is given back at once."""
        needed, spent = set(self._returned), []
        for instruction in reversed(self.instructions):
            touched = dict.fromkeys((*instruction.inputs, *(value.number for value in instruction.outputs)))
            spent.append([number for number in touched if number not in needed])
            needed.update(touched)
        return spent[::-1]

    @cached_property
    def _returned(self) -> tuple[int, ...]:
        refs: list[Any] = [leaf for _, leaf in leaves(self.outputs)] + [effect.value for effect in self.effects]
        return tuple(dict.fromkeys(ref.number for ref in refs if isinstance(ref, Ref)))

    # --- for people

    def __str__(self) -> str:
        return listing(self)

    __repr__ = __str__

    # --- checks

    def verify(self) -> None:
        """Check that every value is made before it is used, and, on copies of everything, that shapes are right.

        >>> import pellucid as torch
        >>> torch.capture(lambda x: x * x, torch.tensor([1.0])).verify()
        """
        values = self._copies()
        for position, instruction in enumerate(self.instructions):
            for number in (*instruction.inputs, *([instruction.writes.number] if instruction.writes else [])):
                if number not in values:
                    raise CaptureError(f"instruction {position} ({instruction}) uses v{number} before it is made")
            for value, array in zip(instruction.outputs, instruction.run(values), strict=True):
                if value.number in values or not value.fits(array):
                    found = describe(array.shape, array.dtype)
                    raise CaptureError(f"instruction {position} ({instruction}) made {found}, expected a new {value}")
                values[value.number] = array
        missing = [number for number in self._returned if number not in values]
        if missing:
            raise CaptureError(f"v{missing[0]} is returned but never made")

    def _copies(self) -> dict[int, np.ndarray]:
        examples = [wrap(given.example) for given in self.inputs]
        arrays = [given.example for given in self.inputs]
        for reference in self.references:
            tensor = _tensor(reference.owner, examples)
            holder = tensor if reference.slot == "array" else tensor._grad
            arrays.append(np.ones(reference.value.shape, reference.value.dtype) if holder is None else holder.array)
        arrays += [constant.array for constant in self.constants]
        return {number: np.array(array) for number, array in zip(self._sources, arrays, strict=True)}


def _tensor(owner: Owner, tensors: Sequence[Tensor]) -> Tensor:
    return tensors[owner] if isinstance(owner, int) else owner


def _set(tensor: Tensor, slot: str, array: Any) -> None:
    if slot == "array":
        tensor.array = array
    else:
        tensor._grad = None if array is None else wrap(array)


def _output(leaf: Any, made: dict[int, Any], tensors: Sequence[Tensor]) -> Any:
    if isinstance(leaf, Same):
        return _tensor(leaf.owner, tensors)
    return wrap(made[leaf.number]) if isinstance(leaf, Ref) else leaf


def _refused(what: str, place: Place, why: str | None = None, try_: str | None = None) -> CaptureError:
    try_ = try_ or f"capture again with these arguments (it was captured at {place.text})"
    return CaptureError(explain(f"cannot replay: {what}", str(here()), why, try_))


def argument_name(path: str, parameters: Sequence[str] = ()) -> str:
    """A path into (args, kwargs) as the function calls the argument, given the names of its positional parameters.

    >>> argument_name("[0][1]['w']", ["x", "state"]), argument_name("[0][2]"), argument_name("[1]['mask'][0]")
    ("state['w']", 'argument 2', 'mask[0]')
    """
    first, _, rest = path[4:].partition("]")
    if not path.startswith("[0]"):
        return first.strip("'") + rest
    position = int(first)
    return f"{parameters[position] if position < len(parameters) else f'argument {position}'}{rest}"


def identifier(op: str) -> str:
    """The name of an operation as a Python identifier.

    >>> identifier("np.add.reduce"), identifier("and")
    ('np_add_reduce', 'and_')
    """
    name = "".join(letter if letter.isalnum() or letter == "_" else "_" for letter in op)
    return f"{name}_" if iskeyword(name) else name


def _executed(instruction: Instruction, name: str, table: Table) -> list[str]:
    """The lines that run an instruction; kernels may give NumPy scalars, which become arrays again."""
    flat = [f"v{v.number} = np.asarray(v{v.number})" for v in instruction.outputs if not v.shape]
    return [instruction.text(name, table), *flat]
