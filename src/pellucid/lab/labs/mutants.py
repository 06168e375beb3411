"""Mutants of a learner's `Value`: small mistakes put into its source, each of which the learner's tests must notice."""

import ast
import copy
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

from pellucid.lab.elsewhere import run_within
from pellucid.lab.labs import suite
from pellucid.lab.labs.running import read_lines

RECURSIVE = """
def backward(self, first=True):
    if first:
        self.grad = 1.0
    self._backward()
    for value in self._prev:
        value.backward(False)
"""
LIMIT = 5.0  # seconds without a result; a mutant whose tests hang is noticed, too


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mistake, told to the learner, and the source with it."""

    mistake: str
    source: str


def mutants(source: str) -> list[Mutant]:
    """Every mutant of a class `Value`.

    >>> code = "class Value:\\n    def __add__(self, b):\\n        def back():\\n            self.grad += out.grad"
    >>> [mutant.mistake for mutant in mutants(code)][0]
    '__add__ assigns the gradient (=) where it should add to it (+=)'
    """
    tree = Accumulations().visit(ast.parse(source))
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Value"]
    methods = [node for cls in classes for node in cls.body if isinstance(node, ast.FunctionDef)]
    return [
        Mutant(mistake, _with(tree, method, changed)) for method in methods for mistake, changed in _mistakes(method)
    ]


def _with(tree: ast.Module, method: ast.FunctionDef, changed: ast.FunctionDef) -> str:
    """The source with one method changed."""

    class Exchange(ast.NodeTransformer):
        def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
            return changed if node is method else self.generic_visit(node)

    class_body = Exchange().visit(_shallow(tree))
    return ast.unparse(ast.fix_missing_locations(class_body))


def _shallow(tree: ast.Module) -> ast.Module:
    """The tree with lists of its own down to the methods, so that an exchange leaves the original alone."""
    body = [copy.copy(node) for node in tree.body]
    for node in body:
        if isinstance(node, ast.ClassDef):
            node.body = list(node.body)
    return ast.Module(body, tree.type_ignores)


def _mistakes(method: ast.FunctionDef) -> Iterator[tuple[str, ast.FunctionDef]]:
    """The mistakes that can be made in a method, each with the method that makes it."""
    name = method.name
    mistakes: list[tuple[str, ast.NodeTransformer]] = []
    if name != "backward":
        mistakes += [
            (f"{name} assigns the gradient (=) where it should add to it (+=)", Assigns()),
            (f"{name} forgets its local derivative", ForgetsLocal()),
            (f"{name} forgets the gradient that comes from above", ForgetsAbove()),
        ]
    mistakes += OF_METHOD.get(name, [])
    for mistake, transformer in mistakes:
        changed = transformer.visit(copy.deepcopy(method))
        if ast.dump(changed) != ast.dump(method):
            yield mistake, changed


# --- where gradients add up


def _is_grad(node: ast.AST) -> TypeGuard[ast.Attribute]:
    return isinstance(node, ast.Attribute) and node.attr == "grad"


def _is_data(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "data"


class Accumulations(ast.NodeTransformer):
    """Write `x.grad = x.grad + ...` as `x.grad += ...`, so that one form is left to look for."""

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        target, value = node.targets[0], node.value
        if not (_is_grad(target) and isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add)):
            return node
        if ast.unparse(value.left) != ast.unparse(target):
            return node
        return ast.copy_location(ast.AugAssign(target, ast.Add(), value.right), node)  # type: ignore[arg-type]


class AtAccumulation(ast.NodeTransformer):
    """Changes the places where something is added to a gradient."""

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        return self.changed(node) if _is_grad(node.target) and isinstance(node.op, ast.Add) else node

    def changed(self, node: ast.AugAssign) -> ast.AST:
        """The statement with the mistake."""
        raise NotImplementedError


class Assigns(AtAccumulation):
    def changed(self, node: ast.AugAssign) -> ast.AST:
        return ast.Assign([node.target], node.value)


class ForgetsLocal(AtAccumulation):
    def changed(self, node: ast.AugAssign) -> ast.AST:
        node.value = next((part for part in ast.walk(node.value) if _is_grad(part)), node.value)
        return node


class ForgetsAbove(AtAccumulation):
    def changed(self, node: ast.AugAssign) -> ast.AST:
        return replaced(node, _is_grad, ast.Constant(1.0))


class SwapsFactors(AtAccumulation):
    """The derivative of a product with respect to a factor is the *other* factor."""

    def changed(self, node: ast.AugAssign) -> ast.AST:
        own = ast.Attribute(node.target.value, "data", ast.Load())  # type: ignore[union-attr]
        return replaced(node, _is_data, own)


def replaced(node: ast.AugAssign, which: Callable[[ast.AST], bool], by: ast.expr) -> ast.AugAssign:
    """A statement with something else in the place of some parts of what it adds."""

    class Exchange(ast.NodeTransformer):
        def visit_Attribute(self, part: ast.Attribute) -> ast.AST:
            return by if which(part) else self.generic_visit(part)

    return ast.AugAssign(node.target, node.op, Exchange().visit(node.value))


# --- mistakes of single methods


class ReplacesBody(ast.NodeTransformer):
    """The method does something else."""

    def __init__(self, source: str) -> None:
        self.method = ast.parse(source).body[0]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self.method


class NotReversed(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id == "reversed":
            return node.args[0]
        return self.generic_visit(node)


class IncludesZero(ast.NodeTransformer):
    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        other: dict[type[ast.cmpop], ast.cmpop] = {ast.Gt: ast.GtE(), ast.LtE: ast.Lt()}
        node.ops = [other.get(type(operator), operator) for operator in node.ops]
        return node


class KeepsPower(ast.NodeTransformer):
    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        one = isinstance(node.right, ast.Constant) and node.right.value == 1
        return node.left if one and isinstance(node.op, ast.Sub) else self.generic_visit(node)


OF_METHOD: dict[str, list[tuple[str, ast.NodeTransformer]]] = {
    "backward": [
        ("backward calls itself on the inputs instead of sorting the graph first", ReplacesBody(RECURSIVE)),
        ("backward walks from the inputs to the result", NotReversed()),
    ],
    "__mul__": [("__mul__ gives each factor its own value as derivative, not the other's", SwapsFactors())],
    "__pow__": [("__pow__ forgets to lower the power by one", KeepsPower())],
    "relu": [("relu lets the gradient through at exactly 0", IncludesZero())],
    "__rsub__": [
        ("__rsub__ computes self - other", ReplacesBody("def __rsub__(self, other):\n    return self - other"))
    ],
    "__rtruediv__": [
        ("__rtruediv__ computes self / other", ReplacesBody("def __rtruediv__(self, other):\n    return self / other"))
    ],
}


# --- running a learner's tests


def run_tests(
    folder: Path, tests: str, sources: Sequence[str | None] = (None,), *, changed: str = "value.py",
    as_torch: bool = False, limit: float = LIMIT,
) -> list[dict[str, str]]:  # fmt: skip
    """What each test of a learner says, once for each source that one of the files is replaced by (None: by nothing).

    `as_torch`: with Pellucid under the name torch, which takes longer to start.
    """
    start = ["-P", "-m", "pellucid", "run", suite.__file__] if as_torch else ["-P", suite.__file__]
    with tempfile.TemporaryDirectory(prefix="pellucid-mutants-") as scratch:
        copies = [
            _copied(folder, Path(scratch).resolve() / str(i), source, changed) for i, source in enumerate(sources)
        ]
        said: list[dict[str, str]] = []
        while len(said) < len(copies):
            result = Path(scratch) / f"result-{len(said)}"
            result.touch()
            waiting = [str(copy / tests) for copy in copies[len(said) :]]
            status = run_within([*start, str(result), *waiting], Path(scratch), Path(scratch) / "printed", limit)
            done = read_lines(result)
            if not done:
                why = f"stopped after {limit:g} seconds" if status is None else f"ended the process ({status})"
                done = [{tests: why}]
            said += done
        return said


def _copied(folder: Path, copy: Path, source: str | None, changed: str) -> Path:
    """The learner's files in another folder, one of them changed."""
    copy.mkdir()
    for file in folder.glob("*.py"):
        shutil.copy(file, copy)
    if source is not None:
        (copy / changed).write_text(source, encoding="utf-8")
    return copy


def survivors(folder: Path, tests: str) -> list[str]:
    """The mistakes that the learner's tests do not notice."""
    found = mutants((folder / "value.py").read_text(encoding="utf-8"))
    said = run_tests(folder, tests, [mutant.source for mutant in found])
    return [mutant.mistake for mutant, failures in zip(found, said) if not any(failures.values())]
