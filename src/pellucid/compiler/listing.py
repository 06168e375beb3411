"""A program for people: its text with shapes, dtypes and the user's lines beside it."""

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from pellucid.compiler.parts import Instruction, Owner, Same, Shown, Table, Value
from pellucid.compiler.trees import mapped
from pellucid.core.provenance import Place

if TYPE_CHECKING:
    from pellucid.compiler.program import Program


def listing(program: "Program") -> str:
    """The program as a person reads it, with shapes, dtypes and the user's lines beside the code."""
    scalars = _scalars(program)
    lines = [f"# {program.name}, captured at {short_place(program.place)}: {len(program)} instructions"]
    for use in program.value_uses:
        lines.append(f"# valid on one path only: {use.what} gave Python a value at {short_place(use.place)}")
    lines += _sources(program, scalars)
    for phase, instructions in groupby(program.instructions, key=lambda instruction: instruction.phase):
        lines.append(f"# {phase}")
        lines += [_shown(instruction, Shown(scalars)) for instruction in instructions]
    return "\n".join([*lines, *_results(program)])


def _sources(program: "Program", scalars: dict[int, str]) -> list[str]:
    arrays = [constant for constant in program.constants if constant.value.number not in scalars]
    return [
        *_group("inputs", [(i.value, i.name) for i in program.inputs]),
        *_group("references", [(r.value, r.name) for r in program.references]),
        *_group("constants", [(c.value, c.shown()) for c in arrays]),
    ]


def _group(title: str, rows: Sequence[tuple[Value, str]]) -> list[str]:
    lines = [aligned(f"v{value.number} = {name}", str(value)) for value, name in rows]
    return [f"# {title}", *lines] if lines else []


def _scalars(program: "Program") -> dict[int, str]:
    """The constants that are one number and stay it: they are shown where they are used."""
    return {c.value.number: str(c.array) for c in program.constants if not c.value.shape and not c.written}


def _results(program: "Program") -> list[str]:
    effects = [f"{effect.name}.{effect.slot} = {effect.value!r}" for effect in program.effects]
    shown = mapped(lambda leaf: _Text(_name(program, leaf.owner)) if isinstance(leaf, Same) else leaf, program.outputs)
    return ["# results", *effects, f"return {shown!r}"]


def _name(program: "Program", owner: Owner) -> str:
    if isinstance(owner, int):
        return program.inputs[owner].name
    names = [reference.name for reference in program.references if reference.owner is owner]
    return names[0] if names else "a tensor from outside"


class _Text(str):
    """A name that shows without quotes."""

    def __repr__(self) -> str:
        return str(self)


def short_place(place: Place) -> str:
    """The file's own name and the line."""
    return f"{place.filename.rsplit('/', 1)[-1]}:{place.line}"


def aligned(code: str, *notes: str) -> str:
    """Code with remarks in a column to its right."""
    return f"{code:<44}  # {'   '.join(note for note in notes if note)}"


def _shown(instruction: Instruction, table: Table) -> str:
    made = ", ".join(str(value) for value in instruction.outputs)
    return aligned(instruction.text(instruction.op, table), made, short_place(instruction.place))
