"""Values with a graph that are carried from one pass into the next: hidden states, sums of losses, lists of losses."""

import ast
import linecache
from collections.abc import Collection, Iterator
from typing import NamedTuple, TypeGuard

from pellucid.core.provenance import Place
from pellucid.diagnose.events import Backward, Operation, Pass, Value, key_of
from pellucid.diagnose.finding import Spot

KEEPING = ("append", "add", "extend", "appendleft", "insert", "setdefault")  # methods that put a value into a container


def carried_over(done: Pass, began: int) -> Operation | None:
    """The first operation that takes up, with its graph, a value of an earlier step that a line of this pass made.

    The line runs in every pass, so its value is carried along in the loop. Features that were computed once before the
    loop are no such value, nor is what an operation beside the loss takes: the mean of an output, for the log.
    """
    taken = [(op, value) for op, value in old_values(done, began) if op in done.toward_loss]
    lines = {operation.spot for operation in done.operations} if taken else set()
    return next((op for op, value in taken if Spot.of(_made_at(value)) in lines and not _stays(op, value, done)), None)


def _stays(operation: Operation, value: Value, done: Pass) -> bool:
    """Whether the loop takes one and the same value in every pass: a reference that a function of the loop made once.

    An operation has taken it before, where a state is another one every time; and the line that made it runs less often
    than in the pass that made it, where a list that grows gets a new one from there every time.
    """
    stay, made = value.stays, key_of(_made_at(value))
    now = sum(key_of(other.place) == made for other in done.operations)
    return stay is not None and key_of(operation.place) in stay.taken_at and now < stay.siblings


def renewing(operation: Operation, done: Pass, began: int) -> Operation:
    """The operation that makes the next state of the one that an operation takes up, or else that operation itself.

    It is on the line that has made the state in the step before: `self.mean = 0.9 * self.mean + 0.1 * x.mean(0)`.
    """
    taken = old_values(done, began)
    carried = {value for op, value in taken if op is operation}
    makes_next = (op for op, value in taken if value in carried and op.spot == Spot.of(_made_at(value)))
    return next(makes_next, operation)


def entrance(operation: Operation, began: int) -> Spot:
    """Where the loop hands the carried value on: the call of the outermost model that is given it, else the operation.

    A model that keeps its state to itself (`self.h = ...` in forward) is not given it.
    """
    spot, call = operation.spot, operation.module
    while call is not None:
        if any(_is_old(value, began) for value in call.inputs):
            spot = call.spot
        call = call.parent
    return spot


def accumulators(done: Pass, began: int) -> list[Operation]:
    """The operations that add to their own result of an earlier step, with its graph: `total += loss`."""
    return list(dict.fromkeys(op for op, value in old_values(done, began) if _made_at(value) == op.place))


def old_values(done: Pass, began: int) -> list[tuple[Operation, Value]]:
    """The recorded operations that took a value with its graph that an earlier step computed, and that value."""
    old = [value for value in done.uses if value.born < began and _is_old(value, began)]
    taken = [(op, value) for value in old for op in done.uses[value] if op.recorded]
    return sorted(taken, key=lambda pair: (pair[0].order, pair[0].inputs.index(pair[1])))


def _made_at(value: Value) -> Place:
    assert value.made_at is not None, "old values have a maker"
    return value.made_at


def _is_old(value: Value, began: int) -> bool:
    return value.requires_grad and value.parameter is None and value.born < began and value.made_at is not None


class Kept(NamedTuple):
    """A line that puts a variable into a container, and what it calls the variable."""

    spot: Spot
    name: str
    passed: bool  # as an argument: other calls may give other things


def loss_appended_at(event: Backward) -> Kept | None:
    """The line that puts a loss into a list or a dict: `losses.append(loss)`."""
    return appended_at(event.spot.file, _name_of_root(event))


def result_appended_at(call: Spot) -> Kept | None:
    """The line that puts the result of a call into a list or a dict: `outputs.append(out)` after `out = model(x)`."""
    name, assigned, _ = call.code.partition(" = ")
    return appended_at(call.file, name) if assigned else None


def appended_at(file: str, name: str) -> Kept | None:
    """The line that puts a variable into a container, found in the source.

    A function of the same file that is given the variable (`meter.update(loss)`, `log(loss=loss)`) may be the one that
    keeps it.
    """
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return None
    if not name:
        return None
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    keeping = [method for method in KEEPING if method not in own]  # monitor.add(loss): what it does is written there
    places = [(tree, name), *_receivers(tree, name)]
    lines = ((_kept_at(place, called, keeping), called, place is not tree) for place, called in places)
    return next((Kept(Spot(file, line), called, passed) for line, called, passed in lines if line is not None), None)


def _kept_at(tree: ast.AST, name: str, keeping: Collection[str]) -> int | None:
    """The line on which a variable is put into a container: `kept.append(name)`, `kept[key] = name`."""
    for node in ast.walk(tree):
        if any(isinstance(part, ast.Name) and part.id == name for part in _direct(_stored_by(node, keeping))):
            return node.lineno  # type: ignore[attr-defined]
    return None


def _stored_by(node: ast.AST, keeping: Collection[str]) -> list[ast.expr]:
    """What a statement or a call puts into a container."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.args if node.func.attr in keeping else []
    into = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript)
    joined = isinstance(node, ast.AugAssign) and isinstance(node.value, (ast.List, ast.Tuple))
    return [node.value] if into or joined else []  # type: ignore[attr-defined]


def _receivers(tree: ast.AST, name: str) -> Iterator[tuple[ast.AST, str]]:
    """The functions of a file that are called with a variable, each with what it calls it."""
    nodes = list(ast.walk(tree))
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    for call in (node for node in nodes if isinstance(node, ast.Call)):
        called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        for function in functions:
            if function.name == called:
                for parameter in _parameters_given(call, function, name):
                    yield from ((function, each) for each in (parameter, *_looped(function, parameter)))


def _parameters_given(call: ast.Call, function: ast.FunctionDef, name: str) -> Iterator[str]:
    """The parameters of a function through which a call gives it a variable, also inside a list or a dict."""
    given = function.args
    names = [one.arg for one in (*given.posonlyargs, *given.args) if one.arg != "self"]
    rest = given.vararg.arg if given.vararg is not None else ""
    arguments = [(names[i] if i < len(names) else rest, each) for i, each in enumerate(call.args)]
    known = {*names, *(one.arg for one in given.kwonlyargs)}
    others = given.kwarg.arg if given.kwarg is not None else ""
    arguments += [(word.arg if word.arg in known else others, word.value) for word in call.keywords if word.arg]
    for parameter, argument in arguments:
        if parameter and any(isinstance(part, ast.Name) and part.id == name for part in _direct([argument])):
            yield parameter


def _looped(function: ast.FunctionDef, parameter: str) -> Iterator[str]:
    """What a function calls the things in a container that it is given: `for key, value in metrics.items()`."""
    for node in ast.walk(function):
        if isinstance(node, ast.For) and parameter in {part.id for part in ast.walk(node.iter) if _is_name(part)}:
            parts = node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]
            yield from (part.id for part in ast.walk(parts[-1]) if _is_name(part))  # a key or a number comes first


def _is_name(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name)


def _name_of_root(event: Backward) -> str:
    """The variable that backward was called on."""
    try:
        line = ast.parse(event.spot.source)
    except SyntaxError:
        return ""
    for node in ast.walk(line):
        if isinstance(node, ast.Attribute) and node.attr == "backward":
            return next((part.id for part in _multiplied(node.value) if isinstance(part, ast.Name)), "")
    return ""


def _multiplied(value: ast.expr) -> Iterator[ast.expr]:
    """What backward is called on, and what that may be a multiple of: `loss / 4`, `scaler.scale(loss)`."""
    yield value
    if isinstance(value, ast.BinOp):
        yield from (value.left, value.right)
    elif isinstance(value, ast.Call):
        yield from value.args


def _direct(arguments: list[ast.expr]) -> Iterator[ast.expr]:
    """The arguments themselves and the parts of tuples, lists and dicts among them; not what is computed of them."""
    for argument in arguments:
        yield argument
        if isinstance(argument, (ast.Tuple, ast.List)):
            yield from _direct(argument.elts)
        elif isinstance(argument, ast.Dict):
            yield from _direct([value for value in argument.values if value is not None])
