"""Values with a graph that are carried from one pass into the next: hidden states, sums of losses, lists of losses."""

import ast
import linecache
from collections.abc import Iterator

from pellucid.diagnose.events import Backward, Operation, Pass, Value
from pellucid.diagnose.finding import Spot


def carried_over(done: Pass) -> Operation | None:
    """The first operation that takes up, with its graph, a value of an earlier pass that a line of this pass made.

    The line runs in every pass, so its value is carried along in the loop. Features that were computed once before the
    loop are no such value.
    """
    lines = {operation.place for operation in done.operations}
    return next((op for op in done.operations if any(v.made_at in lines for v in old_values(op, done.number))), None)


def accumulators(done: Pass) -> list[Operation]:
    """The operations that add to their own result of an earlier pass, with its graph: `total += loss`."""
    return [op for op in done.operations if any(v.made_at == op.place for v in old_values(op, done.number))]


def old_values(operation: Operation, number: int) -> list[Value]:
    """The inputs of a recorded operation that an earlier pass computed and that still have their graph."""
    if not operation.recorded:
        return []
    return [
        value for value in operation.inputs
        if value.requires_grad and value.parameter is None and value.born < number and value.made_at is not None
    ]  # fmt: skip


def appended_at(event: Backward) -> Spot | None:
    """The line that puts a loss into a list, found in the source: `losses.append(loss)`."""
    name = _name_of_root(event)
    if not name:
        return None
    for call in _calls(event.spot.file):
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("append", "add", "extend", "appendleft"):
            if any(isinstance(part, ast.Name) and part.id == name for part in _direct(call.args)):
                return Spot(event.spot.file, call.lineno)
    return None


def _name_of_root(event: Backward) -> str:
    """The variable that backward was called on."""
    try:
        statement = ast.parse(event.spot.source).body[0]
    except (SyntaxError, IndexError):
        return ""
    for node in ast.walk(statement):
        if isinstance(node, ast.Attribute) and node.attr == "backward" and isinstance(node.value, ast.Name):
            return node.value.id
    return ""


def _direct(arguments: list[ast.expr]) -> Iterator[ast.expr]:
    """The arguments themselves and the parts of tuples, lists and dicts among them; not what is computed of them."""
    for argument in arguments:
        yield argument
        if isinstance(argument, (ast.Tuple, ast.List)):
            yield from _direct(argument.elts)
        elif isinstance(argument, ast.Dict):
            yield from _direct([value for value in argument.values if value is not None])


def _calls(file: str) -> Iterator[ast.Call]:
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield node
