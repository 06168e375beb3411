"""Lines of the user's code, rewritten for a fix: without a comment, without a call, without writing in place."""

import ast
import re
from collections.abc import Callable, Collection
from typing import Any

__all__ = [
    "bare", "carried_name", "detached", "guarded", "kept_as", "out_of_place", "squeezed", "stable",
    "summed_as_number", "without_call",
]  # fmt: skip

NO_CHANGE = ""


def bare(line: str) -> str:
    """A line without the comment at its end.

    >>> bare("loss = f(x)  # the '#' before it is no comment")
    'loss = f(x)'
    >>> bare('print("#1")')
    'print("#1")'
    """
    for at in (at for at, sign in enumerate(line) if sign == "#"):
        if line[:at].count('"') % 2 == 0 and line[:at].count("'") % 2 == 0:
            return line[:at].rstrip()
    return line


def without_call(line: str, names: Collection[str]) -> str:
    """A statement in which calls of these functions or methods give way to what they are called on; "" if none does.

    >>> without_call("return torch.softmax(self.out(h), dim=1)", ("softmax",))
    'return self.out(h)'
    >>> without_call("p = score.sigmoid()", ("sigmoid",)), without_call("p = self.sigmoid(score)", ("sigmoid",))
    ('p = score', 'p = score')
    """
    tree = _parsed(line)
    dropped = _Dropped(names)
    return _written(dropped.visit(tree)) if tree is not None and dropped.finds(tree) else NO_CHANGE


def out_of_place(line: str) -> str:
    """A statement that makes a new tensor where the given one writes into the old one; "" if it is no such statement.

    >>> out_of_place("scale += 1.0"), out_of_place("att.masked_fill_(pad, 0.0)"), out_of_place("x[:, 0] = 0")
    ('scale = scale + 1.0', 'att = att.masked_fill(pad, 0.0)', 'x = x.clone(); x[:, 0] = 0')
    """
    tree = _parsed(line)
    statement = tree.body[0] if tree is not None else None
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        return f"{statement.target.id} = {_with_operator(statement)}"
    target = _subscripted(statement)
    if target:
        return f"{target} = {target}.clone(); {line}"
    call = statement.value if isinstance(statement, (ast.Expr, ast.Assign)) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr.endswith("_"):
        call.func.attr = call.func.attr.removesuffix("_")
        into = statement.targets[0] if isinstance(statement, ast.Assign) else call.func.value
        return f"{ast.unparse(into)} = {ast.unparse(call)}"
    return NO_CHANGE


def renewed(line: str) -> str:
    """A statement that writes a variable's new value into it, where the given one makes another; "" if it does not.

    >>> renewed("p = p - rate * p.grad"), renewed("p = step(p)")
    ('p -= rate * p.grad', '')
    """
    tree = _parsed(line)
    statement = tree.body[0] if tree is not None else None
    value = statement.value if isinstance(statement, ast.Assign) else None
    if not isinstance(statement, ast.Assign) or not isinstance(value, ast.BinOp):
        return NO_CHANGE
    target = statement.targets[0]
    if not isinstance(target, ast.Name) or ast.unparse(value.left) != target.id:
        return NO_CHANGE
    return _written(ast.AugAssign(target, value.op, value.right))


def kept_as(line: str, name: str, method: str) -> str:
    """A statement that puts a variable into a container, with a method (or `float`) called on it; "" if it does not.

    >>> kept_as("losses.append(loss)", "loss", "item"), kept_as("log['loss'] = loss", "loss", "item")
    ('losses.append(loss.item())', "log['loss'] = loss.item()")
    >>> kept_as("kept.append((loss, loss.shape))", "loss", "detach"), kept_as("self.log[k] = v", "v", "float")
    ('kept.append((loss.detach(), loss.shape))', 'self.log[k] = float(v)')
    """
    tree = _parsed(line)
    statement = tree.body[0] if tree is not None else None
    value = getattr(statement, "value", None)
    kept = value.args if isinstance(value, ast.Call) else [value]
    found = [node for part in kept if part is not None for node in ast.walk(part)]
    called_on = [node.value for node in found if isinstance(node, ast.Attribute)]  # loss.mean() stays
    named = [n for n in found if isinstance(n, ast.Name) and n.id == name and n not in called_on]
    for node in named:
        node.id = f"float({name})" if method == "float" else f"{name}.{method}()"
    return _written(tree) if tree is not None and named else NO_CHANGE


def summed_as_number(line: str) -> str:
    """A statement that adds a tensor up, without the graph; "" if it is no such statement.

    >>> summed_as_number("total += loss * n"), summed_as_number("ema = 0.9 * ema + 0.1 * loss")
    ('total += (loss * n).item()', 'ema = (0.9 * ema + 0.1 * loss).detach()')
    """
    return _with_method(line, ast.AugAssign, "item") or detached(line)


def detached(line: str) -> str:
    """An assignment of what is cut off from the graph that made it; "" if it is no assignment.

    >>> detached("target = net(x) * 2"), detached("return net(x)")
    ('target = (net(x) * 2).detach()', '')
    """
    return _with_method(line, ast.Assign, "detach")


def _with_method(line: str, kind: Any, method: str) -> str:
    """A statement of one kind, with a method called on its value."""
    tree = _parsed(line)
    statement = tree.body[0] if tree is not None else None
    if tree is None or not isinstance(statement, kind):
        return NO_CHANGE
    statement.value = ast.Call(ast.Attribute(statement.value, method), [], [])  # type: ignore[attr-defined]
    return _written(tree)


def carried_name(line: str) -> str:
    """The variable that a statement both takes and renews: a state that is carried along; "" if it is not one.

    >>> carried_name("logits, hidden = model(x, hidden)"), carried_name("loss = loss_of(x)")
    ('hidden', '')
    """
    tree = _parsed(line)
    statement = tree.body[0] if tree is not None else None
    if not isinstance(statement, ast.Assign):
        return NO_CHANGE
    renewed = {ast.unparse(node) for target in statement.targets for node in ast.walk(target)}
    taken = {ast.unparse(node) for node in ast.walk(statement.value) if isinstance(node, (ast.Name, ast.Attribute))}
    both = renewed & taken - {"self"}
    return both.pop() if len(both) == 1 else NO_CHANGE


def squeezed(line: str, operation: str, operand: int) -> str:
    """A statement in which one operand of an operation gets rid of its last dimension; "" if it cannot be told.

    >>> squeezed("error = (returns - values).abs()", "sub", 1), squeezed("return F.mse_loss(v, y)", "mse_loss", 0)
    ('error = (returns - values.squeeze(-1)).abs()', 'return F.mse_loss(v.squeeze(-1), y)')
    >>> squeezed("hits = (guess == y) * weight(x, y)", "eq", 0)
    ''
    """
    tree = _parsed(line)
    if tree is None:
        return NO_CHANGE
    infix = INFIX.get(operation)
    pairs = [n for n in ast.walk(tree) if infix is not None and isinstance(n, ast.BinOp) and isinstance(n.op, infix)]
    calls = [n for n in ast.walk(tree) if infix is None and isinstance(n, ast.Call) and len(n.args) == 2]
    if len(pairs) + len(calls) != 1:
        return NO_CHANGE
    for pair in pairs:
        setattr(pair, SIDES[operand], _squeezed(getattr(pair, SIDES[operand])))
    for call in calls:
        call.args[operand] = _squeezed(call.args[operand])
    return _written(tree)


def guarded(line: str, code: str) -> str:
    """A statement whose divisor, logarithm or root is kept away from zero; "" if it cannot be told which.

    >>> guarded("return v / v.norm()", "division-by-zero"), guarded("e = -(p * p.log()).sum()", "log-of-zero")
    ('return v / (v.norm() + 1e-08)', 'e = -(p * (p + 1e-08).log()).sum()')
    >>> guarded("u = v / torch.sqrt(s)", "division-by-zero"), guarded("h = (p - q).log()", "log-of-less")
    ('u = v / torch.sqrt(s + 1e-12)', 'h = (p - q).clamp(min=1e-08).log()')
    >>> guarded("d = torch.sqrt((x ** 2).sum(1))", "sqrt-at-zero"), guarded("d = sq ** 0.5", "sqrt-at-zero")
    ('d = torch.sqrt((x ** 2).sum(1) + 1e-12)', 'd = (sq + 1e-12) ** 0.5')
    >>> guarded("e = th.log(p)", "log-of-zero"), guarded("e = torch.log(input=p)", "log-of-zero")
    ('e = th.log(p + 1e-08)', '')
    """
    tree, (operator, functions, safe) = _parsed(line), GUARDS.get(code, (None, (), None))
    if tree is None or safe is None:
        return NO_CHANGE
    pairs = [node for node in ast.walk(tree) if isinstance(node, ast.BinOp) and _is_open(node, operator)]
    plain = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and not node.keywords]
    calls = [call for call in plain if getattr(call.func, "attr", "") in functions]
    if len(pairs) + len(calls) != 1:
        return NO_CHANGE
    for pair in pairs:
        side = "right" if isinstance(pair.op, ast.Div) else "left"
        operand = getattr(pair, side)
        if isinstance(operand, ast.Call) and getattr(operand.func, "attr", "") == "sqrt" and not operand.keywords:
            _guard(operand, _above(1e-12))  # beside a root, an epsilon leaves its derivative infinite
        else:
            setattr(pair, side, safe(operand))
    for call in calls:
        _guard(call, safe)
    return _written(tree)


def _guard(call: ast.Call, safe: Callable[[ast.expr], ast.expr]) -> None:
    """Keep what a function is called on away from zero: torch.log(x), whatever torch is called, or x.log()."""
    if call.args:
        call.args[0] = safe(call.args[0])
    else:
        call.func.value = safe(call.func.value)  # type: ignore[attr-defined]


def stable(line: str) -> str:
    """A line in which a function that is written out gives way to torch's own, which cannot overflow; "" if none does.

    >>> stable("return torch.log(1 + torch.exp(z))"), stable("p = 1 / (1 + torch.exp(-score))"), stable("y = x.exp()")
    ('return F.softplus(z)', 'p = torch.sigmoid(score)', '')
    """
    better = line
    for written_out, own in STABLE:
        better = written_out.sub(own, better)
    return better if better != line else NO_CHANGE


def _is_open(pair: ast.BinOp, operator: Any) -> bool:
    """Whether an infix operation is of this kind and cannot take zero: a power of 2 can."""
    power = pair.right.value if isinstance(pair.right, ast.Constant) else 0
    return operator is not None and isinstance(pair.op, operator) and not (operator is ast.Pow and power >= 1)  # type: ignore[operator]


def _above(epsilon: float) -> Callable[[ast.expr], ast.expr]:
    return lambda value: ast.BinOp(value, ast.Add(), ast.Constant(epsilon))


def _clamped(value: ast.expr) -> ast.expr:
    return ast.Call(ast.Attribute(value, "clamp"), [], [ast.keyword("min", ast.Constant(1e-8))])


LOGARITHMS = ("log", "log2", "log10")
# By the doctor's code: the operator and the functions that cannot take zero, and what to do to their operand.
GUARDS: dict[str, tuple[Any, tuple[str, ...], Callable[[ast.expr], ast.expr] | None]] = {
    "division-by-zero": (ast.Div, (), _above(1e-8)),
    "log-of-zero": (None, LOGARITHMS, _above(1e-8)),
    "log-of-less": (None, LOGARITHMS, _clamped),  # than zero
    "sqrt-at-zero": (ast.Pow, ("sqrt",), _above(1e-12)),
}
ONE = r"1(?:\.0?)?"
STABLE = (
    (re.compile(rf"torch\.log\({ONE} \+ torch\.exp\(([\w.]+)\)\)"), r"F.softplus(\1)"),
    (re.compile(rf"\({ONE} \+ ([\w.]+)\.exp\(\)\)\.log\(\)"), r"F.softplus(\1)"),
    (re.compile(r"torch\.log1p\(torch\.exp\(([\w.]+)\)\)"), r"F.softplus(\1)"),
    (re.compile(r"(?<![\w.])([\w.]+)\.exp\(\)\.log1p\(\)"), r"F.softplus(\1)"),
    (re.compile(rf"{ONE} / \({ONE} \+ torch\.exp\(-([\w.]+)\)\)"), r"torch.sigmoid(\1)"),
    (re.compile(rf"{ONE} / \({ONE} \+ \(-([\w.]+)\)\.exp\(\)\)"), r"torch.sigmoid(\1)"),
)
# How operations are written between their operands; a comparison is left as it is, and so is a call beside it.
INFIX: dict[str, Any] = {
    "add": ast.Add, "sub": ast.Sub, "mul": ast.Mult, "div": ast.Div, "pow": ast.Pow,
    **dict.fromkeys(("eq", "ne", "lt", "gt", "le", "ge"), ast.cmpop),
}  # fmt: skip
SIDES = ("left", "right")


def _squeezed(operand: ast.expr) -> ast.expr:
    return ast.Call(ast.Attribute(operand, "squeeze"), [ast.UnaryOp(ast.USub(), ast.Constant(1))], [])


class _Dropped(ast.NodeTransformer):
    """Puts the argument of a call in the place of the call."""

    def __init__(self, names: Collection[str]) -> None:
        self.names = names

    def finds(self, tree: ast.AST) -> bool:
        return any(isinstance(node, ast.Call) and self._inner(node) is not None for node in ast.walk(tree))

    def visit_Call(self, node: ast.Call) -> ast.AST:
        inner = self._inner(node)
        return self.visit(inner) if inner is not None else self.generic_visit(node)  # type: ignore[no-any-return]

    def _inner(self, node: ast.Call) -> ast.expr | None:
        """What the function is called on, if it is one of these."""
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if name not in self.names:
            return None
        owner = function.value if isinstance(function, ast.Attribute) else None
        if isinstance(owner, (ast.Name, ast.Attribute)) and ast.unparse(owner) in ("torch", "F", "nn.functional"):
            owner = None
        first = node.args[0] if node.args and not isinstance(node.args[0], ast.Starred) else None
        return first if owner is None or _is_tensor(first) else owner


def _is_tensor(argument: ast.expr | None) -> bool:
    """Whether an argument is what a layer works on, as in self.softmax(scores), and not a dimension."""
    number = isinstance(argument, (ast.Constant, ast.UnaryOp))
    return argument is not None and not number and ast.unparse(argument) not in ("dim", "axis")


def _parsed(line: str) -> ast.Module | None:
    try:
        tree = ast.parse(bare(line))
    except SyntaxError:
        return None
    return tree if len(tree.body) == 1 else None


def _written(tree: ast.AST) -> str:
    return ast.unparse(ast.fix_missing_locations(tree))


def _with_operator(statement: ast.AugAssign) -> str:
    return ast.unparse(ast.BinOp(ast.Name(statement.target.id), statement.op, statement.value))  # type: ignore[union-attr]


def _subscripted(statement: ast.stmt | None) -> str:
    """The variable of which a statement writes a part."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    target = targets[0]
    return target.value.id if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name) else ""
